/** A word as a shell reads it. */
export function shellWord(word: string): string {
  return /^[A-Za-z0-9_./:@%+,=-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** The arguments again, with `--batch` set to this batch: what goes on with it. */
export function goOnArguments(argv: readonly string[], batch: string): string[] {
  const kept: string[] = [];
  for (let at = 0; at < argv.length; at += 1) {
    const word = argv[at] ?? "";
    if (word === "--batch") at += 1;
    else if (!word.startsWith("--batch=")) kept.push(word);
  }
  return [...kept, "--batch", batch];
}

/** Builds command lines that can be typed as they are. `self` is how this program was called. */
export class CommandLines {
  readonly #self: string;

  constructor(self: string) {
    this.#self = self;
  }

  of(...words: readonly string[]): string {
    return [this.#self, ...words.map(shellWord)].join(" ");
  }

  /** The command with these arguments again, going on with a batch. */
  goOn(argv: readonly string[], batch: string): string {
    return this.of(...goOnArguments(argv, batch));
  }
}

/** A batch id that is new, sorts by time and can be typed: `20261130-225959-x7k2`. */
export function newBatchId(now: Date, random: () => number): string {
  const two = (part: number): string => String(part).padStart(2, "0");
  const day = `${now.getFullYear()}${two(now.getMonth() + 1)}${two(now.getDate())}`;
  const time = `${two(now.getHours())}${two(now.getMinutes())}${two(now.getSeconds())}`;
  // No letters that look like digits.
  const letters = "abcdefghjkmnpqrstuvwxyz23456789";
  const tail = Array.from({ length: 4 }, () => letters[Math.floor(random() * letters.length)] ?? "x").join("");
  return `${day}-${time}-${tail}`;
}
