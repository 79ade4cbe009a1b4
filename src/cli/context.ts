import type { Readable } from "node:stream";
import type { Settings } from "../config.ts";
import type { Interruption } from "./interruption.ts";
import type { Output } from "./output.ts";
import type { CommandLines } from "./type-next.ts";

/** What every command is given. */
export interface CommandContext {
  readonly output: Output;
  readonly settings: Settings;
  /** The environment, of which agents get a part. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** The working folder: `.turnq` lies in it. */
  readonly cwd: string;
  readonly stdin: Readable & { readonly isTTY?: boolean | undefined };
  /** The arguments as they were typed, for what is to be typed next. */
  readonly argv: readonly string[];
  readonly lines: CommandLines;
  /** Listens to signals from now on; a command calls it once, when it can be interrupted in order. */
  readonly interruptible: () => Interruption;
  /** Asks whoever sits at the terminal, and answers whether the answer was yes; undefined where nobody does. */
  readonly ask?: ((question: string) => Promise<boolean>) | undefined;
  readonly now: () => number;
}
