import { readFile } from "node:fs/promises";

/** What agents write down as they go, outside of Redis: one line each, appended. */
export type TruthLine =
  | {
      readonly what: "start";
      readonly turn: string;
      readonly attempt: number;
      /** Epoch ms. */
      readonly at: number;
      readonly pid: number;
      /** As the agent was told; absent where its program does not look. */
      readonly iteration?: number;
      /** User messages in the history that it was given. */
      readonly seen?: number;
    }
  | { readonly what: "spend"; readonly turn: string; readonly attempt: number; readonly tokens: number }
  | { readonly what: "end"; readonly turn: string; readonly attempt: number };

/** Reads what the agents wrote, in order, but the line that is being written. Throws at a line that is none. */
export async function readTruth(file: string): Promise<TruthLine[]> {
  const text = await readFile(file, "utf8");
  return text
    .split("\n")
    .slice(0, -1)
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as TruthLine);
}

/** The name of an attempt in maps. */
export function attemptKey(turn: string, attempt: number): string {
  return `${turn}#${attempt}`;
}

/** Tokens spent by each attempt, by {@link attemptKey}. */
export function spentTokens(truth: readonly TruthLine[]): Map<string, number> {
  const spent = new Map<string, number>();
  for (const line of truth) {
    if (line.what !== "spend") continue;
    const key = attemptKey(line.turn, line.attempt);
    spent.set(key, (spent.get(key) ?? 0) + line.tokens);
  }
  return spent;
}
