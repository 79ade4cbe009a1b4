import type { Command } from "commander";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { loadConfig } from "../../config.ts";
import { isTurnqError, messageOf } from "../../domain/error.ts";
import { findRedisServer, packageRoot } from "../../redis/binary.ts";
import { refuseClusterNode } from "../../redis/cluster.ts";
import { connect, whenReady } from "../../redis/connection.ts";
import { checkRedis, type RedisCheck } from "../../redis/doctor.ts";
import { withoutPasswords } from "../../telemetry/passwords.ts";
import { checkAgents } from "../check-agents.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { CONNECT_WITHIN_MS, entriesOf, placeRedis } from "../open-store.ts";
import { OPTIONS } from "../option-parsers.ts";
import { counted } from "../quantity-text.ts";

interface DoctorOptions {
  readonly fix?: boolean | undefined;
  readonly config?: string | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

const NODE_MIN = [20, 19] as const;

/** Adds `turnq doctor`. */
export function addDoctor(program: Command, act: (options: DoctorOptions) => Promise<void>): void {
  program
    .command("doctor")
    .description(
      "Checks Node, redis-server, the Redis that would be used, the configuration and whether its agents can run. Exits 1 when something is wrong.",
    )
    .option("--fix", "fetch a redis-server when there is none")
    .addOption(OPTIONS.config())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq doctor --fix

Next: turnq run FILE --agent echo tries the whole path.`,
    )
    .action(act);
}

/** Checks, one after the other. */
export async function doctor(context: CommandContext, options: DoctorOptions): Promise<number> {
  const { output, lines } = context;
  if (options.fix === true) await fix(context);
  const checks = [
    checkNode(process.versions.node),
    checkBinary(context),
    await checkConfig(context, options.config),
    ...(await checkStore(context)),
  ];
  if (checks.every(({ ok, severity }) => ok || severity === "warning"))
    checks.push(...(await checkAgents(context, options.config)));
  for (const check of checks) await tell(context, check, options.json === true);
  const broken = checks.filter(({ ok, severity }) => !ok && severity === "error").length;
  if (options.quiet !== true) {
    output.note(
      broken > 0
        ? `${counted(broken, "check")} failed`
        : `all is well. Next: ${lines.of("run", "FILE", "--agent", "echo")}`,
    );
  }
  return broken > 0 ? EXIT.failed : EXIT.ok;
}

async function tell({ output }: CommandContext, check: RedisCheck, json: boolean): Promise<void> {
  if (json) return output.object({ type: "check", ...check });
  const { colors } = output;
  const mark = check.ok
    ? colors.green("ok  ")
    : check.severity === "warning"
      ? colors.yellow("warn")
      : colors.red("bad ");
  const wanted = check.ok || check.wanted === "" ? "" : `, wanted ${check.wanted}`;
  await output.line(`${mark} ${check.name}: ${check.found}${wanted}${check.hint === "" ? "" : `\n     ${check.hint}`}`);
}

/** Whether this Node is new enough. */
export function checkNode(version: string): RedisCheck {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const ok = major > NODE_MIN[0] || (major === NODE_MIN[0] && minor >= NODE_MIN[1]);
  return {
    name: "node",
    ok,
    severity: "error",
    found: version,
    wanted: `${NODE_MIN.join(".")} or newer`,
    hint: ok ? "" : "Install a newer Node.",
  };
}

function checkBinary({ settings, cwd, lines }: CommandContext): RedisCheck {
  const base = {
    name: "redis-server",
    severity: settings.redisUrl === undefined ? "error" : "warning",
    wanted: "one on PATH or fetched by the set-up",
  } as const;
  const hint = `Type ${lines.of("doctor", "--fix")} to fetch one${settings.redisUrl === undefined ? ", or set REDIS_URL" : "; with REDIS_URL set it is not needed"}.`;
  try {
    const found = findRedisServer({ pathEnv: settings.path, explicit: settings.redisServer, dirs: [cwd] });
    return { ...base, ok: found !== undefined, found: found ?? "none", hint: found === undefined ? hint : "" };
  } catch (error) {
    return { ...base, ok: false, found: messageOf(error), hint: "Correct TURNQ_REDIS_SERVER, or unset it." };
  }
}

async function checkConfig({ cwd, env }: CommandContext, file: string | undefined): Promise<RedisCheck> {
  const base = { name: "configuration", severity: "error", wanted: "a valid one" } as const;
  try {
    const config = await loadConfig({ file, cwd, env, turnq: () => import("../../index.ts") });
    const names = Object.keys(entriesOf(config));
    return {
      ...base,
      ok: true,
      found: `${config.file ?? "none, which is fine"} (agents ${names.join(", ")})`,
      hint: "",
    };
  } catch (error) {
    if (!isTurnqError(error)) throw error;
    return { ...base, ok: false, found: withoutPasswords(error.message), hint: "Correct the file that is named." };
  }
}

async function checkStore(context: CommandContext): Promise<RedisCheck[]> {
  try {
    const place = await placeRedis(context);
    const redis = connect(place.url, "producer", { name: "turnq-doctor" });
    try {
      await whenReady(redis, CONNECT_WITHIN_MS);
      await refuseClusterNode(redis);
      const found = {
        name: "redis",
        ok: true,
        severity: "error",
        found: place.shown,
        wanted: "an answer",
        hint: "",
      } as const;
      return [found, ...(await checkRedis(redis)).map((check) => ({ ...check, name: `redis ${check.name}` }))];
    } finally {
      redis.disconnect();
      place.close();
    }
  } catch (error) {
    const found = withoutPasswords(messageOf(error));
    const hint = isTurnqError(error) ? (error.hint ?? "") : "";
    return [{ name: "redis", ok: false, severity: "error", found, wanted: "", hint }];
  }
}

/** Runs the set-up for this folder: it fetches a redis-server where there is none. */
async function fix({ output, cwd, env }: CommandContext): Promise<void> {
  const script = join(packageRoot(), "scripts", "setup.mjs");
  const child = spawn(process.execPath, [script, "--redis-only", "--dir", cwd], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...env },
  });
  for (const stream of [child.stdout, child.stderr])
    createInterface({ input: stream }).on("line", (line) => output.note(line));
  // What it could not do is found by the checks that follow.
  await once(child, "close");
}
