import { readFileSync, readdirSync } from "node:fs";
import type { Redis } from "ioredis";
import { KIND } from "./keys.ts";

const FOLDER = new URL("./scripts/", import.meta.url);

/** Names of the scripts, as their files are called without `-KEYS.lua`. */
export const SCRIPT_NAMES = [
  "submit",
  "wake",
  "begin",
  "renew",
  "append",
  "close",
  "settle",
  "late",
  "retry",
  "cancel",
  "phase",
  "gate",
  "guard",
  "scan",
  "clear",
  "mend",
  "upkeep",
  "aged",
  "retire",
  "audit",
  "recount",
  "forget",
] as const;
export type ScriptName = (typeof SCRIPT_NAMES)[number];

/** The name under which a script is defined on a connection: apart from BullMQ's and ioredis's own. */
export function commandOf(name: ScriptName): `turnq_${ScriptName}` {
  return `turnq_${name}`;
}

/** Lua locals `K_ROW`, `K_EVENTS` … for the kinds of keys, so that keys.ts stays the only place that knows them. */
function preamble(): string {
  const lines = Object.entries(KIND).map(
    ([name, text]) =>
      `local K_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()} = KEYS[1] .. "${text}"`,
  );
  return lines.join("\n");
}

function source(file: string): string {
  const text = readFileSync(new URL(file, FOLDER), "utf8");
  return text.replaceAll(/^--- include (\S+)$/gm, (_line, name: string) => source(`includes/${name}.lua`));
}

interface Script {
  readonly name: ScriptName;
  readonly lua: string;
  readonly numberOfKeys: number;
}

let loaded: readonly Script[] | undefined;

/** All scripts, read once per process. */
export function loadScripts(): readonly Script[] {
  loaded ??= readdirSync(FOLDER)
    .filter((file) => file.endsWith(".lua"))
    .map((file) => {
      const [, name, keys] = /^(\w+)-(\d+)\.lua$/.exec(file) ?? [];
      const known = SCRIPT_NAMES.find((candidate) => candidate === name);
      if (known === undefined) throw new Error(`${file} is not in SCRIPT_NAMES`);
      return { name: known, lua: `${preamble()}\n${source(file)}`, numberOfKeys: Number(keys) };
    });
  return loaded;
}

/** Defines the scripts on a connection; doing it twice changes nothing. */
export function defineScripts(redis: Redis): void {
  for (const { name, lua, numberOfKeys } of loadScripts()) {
    const command = commandOf(name);
    if (!(command in redis)) redis.defineCommand(command, { lua, numberOfKeys });
  }
}
