import { stripVTControlCharacters } from "node:util";

/** Control characters but newline and tab, and the marks that turn the order of what follows around. */
const DRIVES_THE_TERMINAL = /[^\P{Cc}\n\t]|\p{Bidi_Control}/gu;
/** What picocolors and the pretty log write. */
// oxlint-disable-next-line no-control-regex
const COLOR = /(\u001B\[\d{1,2}m)/;

/**
 * Text of an agent, an input or a file as it may go to a terminal: escape sequences are left out, and control
 * characters that do more than end a line are shown as their code, `<U+202E>`. Twice is as once.
 */
export function harmless(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll("\r\n", "\n")
    .replaceAll(DRIVES_THE_TERMINAL, (character) => {
      const code = character.codePointAt(0) ?? 0;
      return `<U+${code.toString(16).toUpperCase().padStart(4, "0")}>`;
    });
}

/** The same for text that this program has painted: its colours stay. */
export function harmlessButColors(text: string): string {
  return text
    .split(COLOR)
    .map((part, i) => (i % 2 === 1 ? part : harmless(part)))
    .join("");
}
