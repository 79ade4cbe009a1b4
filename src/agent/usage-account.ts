import type { Message } from "../domain/message.ts";
import { wholeCost } from "../domain/cost.ts";
import { NO_USAGE, UNKNOWN_USAGE, USAGE_FIELDS, addUsage, type Usage, type UsageField } from "../domain/usage.ts";

const COUNTS: ReadonlySet<UsageField> = new Set(["modelCalls", "toolCalls"]);

/**
 * Keeps the account of what an attempt has used, from its cumulative reports and from the calls
 * that were announced or seen. Nothing is guessed: what no report covers makes the usage partial.
 */
export class UsageAccount {
  readonly #announcesCalls: boolean;
  #reported: Usage | undefined;
  #calls = 0;
  #coveredCalls = 0;
  #tools = 0;

  constructor(announcesCalls: boolean) {
    this.#announcesCalls = announcesCalls;
  }

  get toolCalls(): number {
    return this.#tools;
  }

  callStarted(): void {
    this.#calls += 1;
  }

  toolStarted(): void {
    this.#tools += 1;
  }

  /** Takes a cumulative report, which replaces the one before; a figure that it does not name stays. Answers what it adds, undefined when nothing or when it takes back. */
  report(usage: Usage): Usage | undefined {
    const before = this.#reported;
    this.#reported = before === undefined ? usage : withFiguresOf(before, usage);
    this.#coveredCalls = this.#coveredBy(usage);
    // Calls that were not announced have begun all the same: one that is announced later is another one.
    this.#calls = Math.max(this.#calls, this.#coveredCalls);
    return tokensBeyond(this.#reported, before);
  }

  /**
   * How many calls a report stands for. Without a number: where calls are announced one, since several may be under way
   * at once; else all that were seen, since it is cumulative.
   */
  #coveredBy({ modelCalls }: Usage): number {
    if (modelCalls > 0) return modelCalls;
    return this.#announcesCalls ? Math.min(this.#calls, this.#coveredCalls + 1) : this.#calls;
  }

  /**
   * The usage so far. `broken`: the attempt ended without the agent's own account, so that its last
   * report may lack something, unless all its calls were announced and all of them are covered.
   */
  total(broken: boolean): Usage {
    const counts = { modelCalls: this.#calls, toolCalls: this.#tools };
    const reported = this.#reported;
    const open = this.#coveredCalls < this.#calls;
    if (reported === undefined) {
      const nothingPaid = this.#announcesCalls && this.#calls === 0;
      return { ...(nothingPaid ? NO_USAGE : UNKNOWN_USAGE), ...counts };
    }
    const mayLack = open || (broken && !this.#announcesCalls);
    return {
      ...reported,
      modelCalls: Math.max(reported.modelCalls, counts.modelCalls),
      toolCalls: Math.max(reported.toolCalls, counts.toolCalls),
      known: reported.known === "reported" && mayLack ? "partial" : reported.known,
    };
  }
}

function withFiguresOf(before: Usage, later: Usage): Usage {
  const all: Usage = { ...before, ...later };
  const kept = USAGE_FIELDS.some((field) => later[field] === undefined && before[field] !== undefined);
  return kept && later.known === "unknown" ? { ...all, known: "partial" } : all;
}

/** What `later` has beyond `before`, tokens only; undefined when nothing, or when a field shrank. */
function tokensBeyond(later: Usage, before: Usage | undefined): Usage | undefined {
  const more: Usage = { ...NO_USAGE };
  let any = false;
  for (const field of USAGE_FIELDS) {
    if (field === "costUsd" || COUNTS.has(field)) continue;
    const extra = (later[field] ?? 0) - (before?.[field] ?? 0);
    if (extra < 0) return undefined;
    if (extra === 0) continue;
    more[field] = extra;
    any = true;
  }
  return any ? more : undefined;
}

/**
 * The messages with usage that adds up to `total` in every field. What the messages bear already is
 * kept where it fits in; the remainder is one explicit entry on the last assistant message, or on
 * an empty one where there is none. What of cost and counts no message bears is in that entry alone.
 */
export function bookUsage(messages: readonly Message[], total: Usage): Message[] {
  const fits = remainder(messages, total);
  const kept: Message[] =
    fits === undefined ? messages.map(({ usage: _dropped, ...message }) => message) : [...messages];
  if (isEmpty(total)) return kept;
  const rest = fits ?? total;
  const at = kept.findLastIndex((message) => message.role === "assistant");
  const last = kept[at];
  if (last === undefined) return [...kept, { role: "assistant", content: "", usage: rest }];
  const usage = last.usage === undefined ? rest : { ...addUsage(last.usage, rest), known: rest.known };
  return kept.with(at, { ...last, usage });
}

function isEmpty(usage: Usage): boolean {
  return USAGE_FIELDS.every((field) => usage[field] === undefined || (COUNTS.has(field) && usage[field] === 0));
}

/** `total` less what the messages bear; undefined when they bear what is not in it. */
function remainder(messages: readonly Message[], total: Usage): Usage | undefined {
  const rest: Usage = { ...total };
  for (const { usage } of messages) {
    if (usage === undefined) continue;
    for (const field of USAGE_FIELDS) {
      const part = usage[field];
      if (part === undefined || part === 0) continue;
      const difference = (rest[field] ?? -1) - part;
      const left = field === "costUsd" ? wholeCost(difference) : difference;
      if (left < 0) return undefined;
      rest[field] = left;
    }
  }
  return rest;
}
