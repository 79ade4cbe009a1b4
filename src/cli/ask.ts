import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { harmless } from "./harmless.ts";
import type { TextStream } from "./output.ts";

/**
 * Asks at the terminal, and answers whether what was typed is a yes; all else is a no, also the end of the input.
 * Ctrl-C does what it does without the question.
 */
export async function askTerminal(stdin: Readable, stderr: TextStream, question: string): Promise<boolean> {
  // Not as a terminal: the terminal edits the line itself, and a signal stays one.
  const lines = createInterface({ input: stdin, output: stderr, terminal: false });
  try {
    const answer = await new Promise<string>((resolve) => {
      lines.once("close", () => resolve(""));
      lines.question(harmless(`${question} [y/N] `), resolve);
    });
    return /^\s*y(es)?\s*$/i.test(answer);
  } finally {
    lines.close();
  }
}
