const SECRET_NAME = /KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL/i;
/** Shorter values (`1`, `true`, `dev`) would blacken the text and hide nothing. */
const SECRET_MIN = 6;
const MASK = "[masked]";

const SHAPES: readonly (readonly [RegExp, string])[] = [
  [/\b(authorization\b["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token)\s+)?)[^\s"',;]+/gi, `$1${MASK}`],
  [/\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}/gi, `$1${MASK}`],
  [/\b((?:x-)?api[-_]?key["']?\s*[:=]\s*["']?)[^\s"',;&]+/gi, `$1${MASK}`],
  [/([?&](?:api[-_]?key|key|token|access_token)=)[^\s&"']+/gi, `$1${MASK}`],
  [/\bsk-[A-Za-z0-9_-]{8,}/g, MASK],
];

/**
 * Masks secrets in a text that is to be stored or shown: the values of the variables whose names
 * look secret, and what looks like a key or an authorization header.
 */
export function maskSecrets(text: string, env: Readonly<Record<string, string>> = {}): string {
  let masked = text;
  for (const [name, value] of Object.entries(env)) {
    if (value.length >= SECRET_MIN && SECRET_NAME.test(name)) masked = masked.replaceAll(value, MASK);
  }
  for (const [shape, put] of SHAPES) masked = masked.replaceAll(shape, put);
  return masked;
}
