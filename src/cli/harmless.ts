import { stripVTControlCharacters } from "node:util";

/** Text of an agent or an input as it may go to a terminal: no escape sequences, no control characters but newlines and tabs. */
export function harmless(text: string): string {
  return stripVTControlCharacters(text).replaceAll(/[^\P{Cc}\n\t]/gu, "");
}
