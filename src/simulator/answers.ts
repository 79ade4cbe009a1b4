import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { z } from "zod";
import { TurnqError, messageOf } from "../domain/error.ts";

/** A line of an answers file. */
export const AnswerLine = z.object({ input: z.string(), answer: z.string() });
export type AnswerLine = z.infer<typeof AnswerLine>;

/** Right answers by the text of the input. */
export type Answers = ReadonlyMap<string, string>;

const BAD_LINES_SHOWN = 10;

/** Reads an answers file: JSONL of `{"input", "answer"}`. Throws `invalid_input` with the bad lines; `file`. */
export async function readAnswers(file: string): Promise<Answers> {
  const answers = new Map<string, string>();
  const bad: string[] = [];
  let number = 0;
  try {
    for await (const line of createInterface({ input: createReadStream(file, "utf8"), crlfDelay: Infinity })) {
      number++;
      const text = line.replace(/^\uFEFF/, "");
      if (text.trim() === "") continue;
      const problem = take(text, answers);
      if (problem !== undefined) bad.push(`line ${number}: ${problem}`);
    }
  } catch (error) {
    throw new TurnqError("file", `cannot be read: ${messageOf(error)}`, { where: file, cause: error });
  }
  if (bad.length > 0) {
    const more = bad.length > BAD_LINES_SHOWN ? `; and ${bad.length - BAD_LINES_SHOWN} more` : "";
    throw new TurnqError("invalid_input", `${bad.slice(0, BAD_LINES_SHOWN).join("; ")}${more}`, {
      where: file,
      hint: 'A line is {"input": "…", "answer": "…"}.',
    });
  }
  return answers;
}

function take(text: string, answers: Map<string, string>): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return "is no JSON";
  }
  const parsed = AnswerLine.safeParse(value);
  if (!parsed.success) return "needs the texts input and answer";
  answers.set(parsed.data.input, parsed.data.answer);
  return undefined;
}
