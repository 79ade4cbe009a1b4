/** What really happened, kept outside of Redis: which attempts ran, and what they spent. */
export class Truth {
  /** `TURN#ATTEMPT` → tokens. An attempt whose agent was started is here, also with 0. */
  readonly spent = new Map<string, number>();
  /** Workers that were killed, or stood still for a time. */
  readonly harmed = new Set<string>();
  /** How often somebody retried a turn, by any way there is. */
  readonly retries = new Map<string, number>();
  /** What broke a law while it happened. */
  readonly broken: string[] = [];

  start(turn: string, attempt: number): void {
    const key = `${turn}#${attempt}`;
    if (this.spent.has(key)) this.broken.push(`the agent of ${key} was started twice`);
    this.spent.set(key, 0);
  }

  spend(turn: string, attempt: number, tokens: number): void {
    const key = `${turn}#${attempt}`;
    this.spent.set(key, (this.spent.get(key) ?? 0) + tokens);
  }

  retry(turn: string): void {
    this.retries.set(turn, (this.retries.get(turn) ?? 0) + 1);
  }

  of(turn: string, attempt: number): number {
    return this.spent.get(`${turn}#${attempt}`) ?? 0;
  }
}
