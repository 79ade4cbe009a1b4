/** At most so many requests in a second: a bucket that holds one second's worth. */
export class RateLimit {
  readonly #perSecond: number;
  readonly #size: number;
  #left: number;
  #at: number;

  /** `nowMs`: a monotonic clock, in ms. */
  constructor(perSecond: number, nowMs: number) {
    this.#perSecond = perSecond;
    this.#size = Math.max(1, perSecond);
    this.#left = this.#size;
    this.#at = nowMs;
  }

  /** Takes one; answers 0, or the ms until there is one. */
  take(nowMs: number): number {
    this.#left = Math.min(this.#size, this.#left + ((nowMs - this.#at) / 1000) * this.#perSecond);
    this.#at = nowMs;
    if (this.#left >= 1) {
      this.#left -= 1;
      return 0;
    }
    return ((1 - this.#left) / this.#perSecond) * 1000;
  }
}
