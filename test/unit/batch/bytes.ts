import type { CellOptions } from "../../../src/batch/cells.ts";
import type { OpenInput } from "../../../src/batch/input.ts";

/** The bytes in pieces of `size`, read anew at each call. */
export function opener(content: string | Uint8Array, size = 64 * 1024): OpenInput {
  const bytes = typeof content === "string" ? Buffer.from(content) : content;
  return async function* pieces() {
    for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
  };
}

export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** Options with two known agents, of which `echo` takes every line that names none. */
export function options(changes: Partial<CellOptions> = {}): CellOptions {
  return {
    batch: "b1",
    agents: ["echo"],
    epochs: 1,
    directory: { names: () => ["echo", "noop"], problem: () => undefined },
    ...changes,
  };
}
