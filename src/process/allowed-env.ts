import { MARK_NAME } from "./mark.ts";

/** What every agent program gets. */
const ALWAYS: readonly string[] = ["PATH", "HOME", "LANG", "TMPDIR", "TZ"];

/**
 * The environment of an agent program: the few names that every program needs, `LC_*`, and those
 * that the agent's configuration names. Never the whole environment: it holds the worker's secrets.
 */
export function allowedEnv(
  env: Readonly<Record<string, string | undefined>>,
  names: readonly string[] = [],
): Record<string, string> {
  const wanted = new Set([...ALWAYS, ...names]);
  wanted.delete(MARK_NAME);
  const allowed: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (value !== undefined && (wanted.has(name) || name.startsWith("LC_"))) allowed[name] = value;
  }
  return allowed;
}
