import type { InfoField, CsvError } from "csv-parse";

/**
 * The lines of a CSV file at which its rows start and end, as an editor counts them. The parser counts a CRLF that is
 * no end of a row twice: inside a quoted cell, and where rows end in a mere LF. It tells of each cell, also of a bad
 * row's, so that they can be taken off.
 */
export class CsvPlace {
  /** How many lines too many the parser has counted so far. */
  #twice = 0;
  /** The last cell ended in a CR: with the LF behind it, it is one line end if its row ends there. */
  #onCr = false;
  #endLine = 0;
  #endBlanks = 0;
  /** The first line of the row that has the last cell. */
  #startLine = 1;

  /** To be called at the end of each cell, the header's too. */
  cellEnded(cell: string, { index, lines, empty_lines: blanks, quoting }: InfoField): void {
    if (index === 0) {
      this.#startLine = this.#firstLineBehind(blanks);
      if (this.#onCr) this.#twice += 1;
    }
    if (cell.includes("\r\n")) this.#twice += cell.split("\r\n").length - 1;
    this.#onCr = !quoting && cell.endsWith("\r");
    this.#endLine = lines - this.#twice - (this.#onCr ? 1 : 0);
    this.#endBlanks = blanks;
  }

  /** The line that a row ends on whose last cell has just ended. */
  get endLine(): number {
    return this.#endLine;
  }

  /** The line that the row starts on which the parser could not read. */
  startLine(error: CsvError | undefined): number {
    const cellsEnded = Number(error?.["index"] ?? 0);
    return cellsEnded > 0 ? this.#startLine : this.#firstLineBehind(Number(error?.["empty_lines"] ?? this.#endBlanks));
  }

  #firstLineBehind(blanks: number): number {
    return this.#endLine + 1 + (blanks - this.#endBlanks);
  }
}
