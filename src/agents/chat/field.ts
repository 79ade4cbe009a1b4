/** A field of a value that may be anything: what a provider says is whatever it likes. */
export function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (Reflect.get(value, name) as unknown) : undefined;
}
