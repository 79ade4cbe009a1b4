import { field } from "./field.ts";

/** An error as the body of an answer has it. */
export interface SaidError {
  /** An HTTP status that it names, 400 to 599. */
  readonly status: number | undefined;
  /** The names that it has, in one text. */
  readonly kind: string;
  readonly message: string;
  /** All of it, as JSON. */
  readonly text: string;
}

/**
 * The error that a piece of an answer is or holds; undefined when it has none. Whoever speaks
 * OpenAI's or Anthropic's dialect has a form of its own: `{"error": {…}}`, `{"error": "…"}`,
 * `{"type": "error", …}`, `{"object": "error", …}`, an error in a choice, a list with an error in it.
 */
export function errorIn(piece: unknown): SaidError | undefined {
  const body: unknown = Array.isArray(piece) ? piece[0] : piece;
  const choices = field(body, "choices");
  const inner = field(body, "error") ?? field(Array.isArray(choices) ? choices[0] : undefined, "error");
  if (isSaid(inner)) return saidError(inner);
  return field(body, "type") === "error" || field(body, "object") === "error" ? saidError(body) : undefined;
}

/** What is known to be an error, whatever its form. */
export function saidError(error: unknown): SaidError {
  const text = typeof error === "string" ? error : (JSON.stringify(error) ?? "");
  const of = (name: string): unknown => field(error, name);
  const message = [of("message"), of("detail"), error].find((text) => typeof text === "string" && text.trim() !== "");
  return {
    status: STATUS_FIELDS.map((name) => statusIn(of(name))).find((status) => status !== undefined),
    kind: ["type", "code", "status"]
      .map(of)
      .filter((name) => typeof name === "string")
      .join(" "),
    message: typeof message === "string" ? message : text,
    text,
  };
}

const STATUS_FIELDS = ["status", "status_code", "statusCode", "code"];

/** Gateways write `429` and `"429"`; other numbers are of their own. */
function statusIn(value: unknown): number | undefined {
  const number = typeof value === "string" && /^\d{3}$/.test(value) ? Number(value) : value;
  return typeof number === "number" && number >= 400 && number < 600 ? number : undefined;
}

function isSaid(error: unknown): boolean {
  return (typeof error === "object" && error !== null) || (typeof error === "string" && error !== "");
}
