import { open, stat } from "node:fs/promises";
import { resolve } from "node:path";
import { TurnqError } from "../domain/error.ts";

/** What results begin with, as JSON lines and as CSV. */
const STARTS = ['{"type":"result"', "turn,batch,"];

/** `--out` is written anew: it may replace results, and nothing else that somebody has. Throws `invalid_request`. */
export async function refuseToOverwrite(cwd: string, out: string | undefined, input?: string): Promise<void> {
  if (out === undefined) return;
  const path = resolve(cwd, out);
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() === true)
    throw new TurnqError("invalid_request", `${out} is a folder`, { where: "--out", hint: "Name a file." });
  if (found === undefined || !found.isFile() || found.size === 0) return;
  const first = await firstBytes(path);
  if (!STARTS.some((start) => first.startsWith(start)))
    throw new TurnqError("invalid_request", `${out} holds something else than results and would be overwritten`, {
      where: "--out",
      hint: input === out ? "It is the input; name another file." : "Name another file, or remove it.",
    });
}

async function firstBytes(path: string): Promise<string> {
  const handle = await open(path, "r");
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(16), 0, 16, 0);
    return buffer.toString("utf8", 0, bytesRead);
  } finally {
    await handle.close();
  }
}
