import { messageOf } from "../domain/error.ts";

/** Work that an agent needs done once before it can run: it is kept when it went well, and can be tried again when it did not. */
export class Readying {
  readonly #work: () => Promise<void> | void;
  #going: Promise<void> | undefined;
  #problem: string | undefined;
  #over = false;

  constructor(work: () => Promise<void> | void) {
    this.#work = work;
  }

  /** Why it failed the last time. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Resolves when the work is over, well or not; begins it when it was not begun. Never rejects. */
  done(): Promise<void> {
    return (this.#going ??= this.#once());
  }

  /** Has the next `done` try what failed once more. */
  again(): void {
    if (this.#over && this.#problem !== undefined) this.#going = undefined;
  }

  async #once(): Promise<void> {
    this.#over = false;
    try {
      await this.#work();
      this.#problem = undefined;
    } catch (error) {
      this.#problem = messageOf(error);
    } finally {
      this.#over = true;
    }
  }
}
