/** A provider that asks for more is heeded for so long, in ms. */
const LONGEST_MS = 86_400_000;

type Headers = Readonly<Record<string, string | undefined>>;

/**
 * The instant at which a provider says that it may be asked again, epoch ms by the clock `now` is of;
 * undefined when it says nothing that can be read. Past instants count as now, absurd ones as a day.
 * `limited`: a limit was the reason, so that what the headers say of limits counts, too.
 */
export function retryAtOf(headers: Headers, now: number, limited: boolean): number | undefined {
  // Its dates are by its own clock, which may be another than ours.
  const itsNow = dateOf(headers["date"]) ?? now;
  const waitMs = waitOf(headers, itsNow) ?? (limited ? resetOf(headers, itsNow) : undefined);
  return waitMs === undefined ? undefined : now + Math.min(LONGEST_MS, Math.max(0, Math.ceil(waitMs)));
}

function waitOf(headers: Headers, itsNow: number): number | undefined {
  const plainMs = numberOf(headers["retry-after-ms"]);
  if (plainMs !== undefined) return plainMs;
  const after = headers["retry-after"];
  const seconds = numberOf(after);
  return seconds === undefined ? untilDate(after, itsNow) : seconds * 1000;
}

const RESET = /^(?:x-|anthropic-)?ratelimit-(?:.+-)?reset(?:-.+)?$/;

/** The time until all limits that are used up are not, in ms. One that does not say what is left of it counts. */
function resetOf(headers: Headers, itsNow: number): number | undefined {
  const waits: number[] = [];
  for (const [name, reset] of Object.entries(headers)) {
    if (!RESET.test(name)) continue;
    const left = numberOf(headers[name.replace("reset", "remaining")]);
    if (left !== undefined && left > 0) continue;
    const waitMs = durationOf(reset) ?? untilNumber(reset, itsNow) ?? untilDate(reset, itsNow);
    if (waitMs !== undefined) waits.push(waitMs);
  }
  return waits.length === 0 ? undefined : Math.max(...waits);
}

/** Some say seconds, some an instant in seconds or ms since 1970: by their size they cannot be taken for each other. */
function untilNumber(text: string | undefined, itsNow: number): number | undefined {
  const number = numberOf(text);
  if (number === undefined) return undefined;
  if (number >= 1e11) return number - itsNow;
  return number >= 1e9 ? number * 1000 - itsNow : number * 1000;
}

function untilDate(text: string | undefined, itsNow: number): number | undefined {
  const at = dateOf(text);
  return at === undefined ? undefined : at - itsNow;
}

function numberOf(text: string | undefined): number | undefined {
  return text !== undefined && /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : undefined;
}

/** An instant with a month or a year in it: `Date.parse` reads a date into almost anything. */
function dateOf(text: string | undefined): number | undefined {
  if (text === undefined || !/\d{4}/.test(text) || !/[a-z]{3}|-\d\d/i.test(text)) return undefined;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : at;
}

const UNIT_MS: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** `6m0s`, `1.5s`, `20ms`. */
function durationOf(text: string | undefined): number | undefined {
  if (text === undefined || !/^(\d+(\.\d+)?(ms|s|m|h))+$/.test(text)) return undefined;
  let sum = 0;
  for (const [, number, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g))
    sum += Number(number) * (UNIT_MS[unit ?? ""] ?? 0);
  return sum;
}
