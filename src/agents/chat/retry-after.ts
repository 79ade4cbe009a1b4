/** A provider that asks for more is heeded for so long, in ms. */
const LONGEST_MS = 86_400_000;

type Headers = Readonly<Record<string, string | undefined>>;

/**
 * The instant at which a provider says that it may be asked again, epoch ms; undefined when it says
 * nothing that can be read. Past instants count as now, absurd ones as a day.
 */
export function retryAtOf(headers: Headers, now: number): number | undefined {
  const waitMs = waitOf(headers, now);
  return waitMs === undefined ? undefined : now + Math.min(LONGEST_MS, Math.max(0, Math.ceil(waitMs)));
}

function waitOf(headers: Headers, now: number): number | undefined {
  const plainMs = numberOf(headers["retry-after-ms"]);
  if (plainMs !== undefined) return plainMs;
  const after = headers["retry-after"];
  const seconds = numberOf(after);
  if (seconds !== undefined) return seconds * 1000;
  const date = dateOf(after);
  if (date !== undefined) return date - now;
  return resetOf(headers, now);
}

/** Limits that are used up, with the instant or the time until they are not: the last one of them. */
function resetOf(headers: Headers, now: number): number | undefined {
  const waits: number[] = [];
  for (const [name, left] of Object.entries(headers)) {
    const kind = /^(x-ratelimit|anthropic-ratelimit)-(?:(.+)-)?remaining(?:-(.+))?$/.exec(name);
    if (kind === null || numberOf(left) !== 0) continue;
    const [, family, before, behind] = kind;
    const reset =
      headers[
        before === undefined
          ? `${family}-reset${behind === undefined ? "" : `-${behind}`}`
          : `${family}-${before}-reset`
      ];
    const waitMs = durationOf(reset) ?? sinceOf(dateOf(reset), now);
    if (waitMs !== undefined) waits.push(waitMs);
  }
  return waits.length === 0 ? undefined : Math.max(...waits);
}

function sinceOf(date: number | undefined, now: number): number | undefined {
  return date === undefined ? undefined : date - now;
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
