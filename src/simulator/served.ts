/** Tokens as a provider bills them; `inputTokens` is the uncached part. */
export interface ServedUsage {
  inputTokens: number;
  outputTokens: number;
  cacheReadTokens: number;
}

/** What was served since the start: the ground truth for cost. */
export interface Served {
  requests: number;
  /** By HTTP status; `hang` for requests that were never answered. */
  byStatus: Record<string, number>;
  usage: ServedUsage;
}

/** Counts what is served, in all and by model. Cut and hung requests count with what had been generated for them. */
export class ServedCount {
  readonly total: Served = empty();
  readonly byModel = new Map<string, Served>();

  /** Counts a request. */
  request(model: string, status: string): void {
    for (const served of this.#of(model)) {
      served.requests++;
      served.byStatus[status] = (served.byStatus[status] ?? 0) + 1;
    }
  }

  /** Counts tokens that were taken in or generated. */
  tokens(model: string, usage: Partial<ServedUsage>): void {
    for (const served of this.#of(model)) {
      served.usage.inputTokens += usage.inputTokens ?? 0;
      served.usage.outputTokens += usage.outputTokens ?? 0;
      served.usage.cacheReadTokens += usage.cacheReadTokens ?? 0;
    }
  }

  #of(model: string): Served[] {
    const own = this.byModel.get(model) ?? empty();
    this.byModel.set(model, own);
    return [this.total, own];
  }
}

function empty(): Served {
  return { requests: 0, byStatus: {}, usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0 } };
}
