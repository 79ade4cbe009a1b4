import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { checkConfig, loadConfig } from "../../src/config.ts";

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "turnq-config-"));
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

describe("a configuration", () => {
  it.each<[string, unknown, string]>([
    ["at the top", { agnets: {} }, 'unknown key "agnets" (did you mean "agents"?)'],
    [
      "of an agent",
      { agents: { a: { type: "command", command: ["x"], outptu: "text" } } },
      'agents.a: unknown key "outptu" (did you mean "output"?)',
    ],
    [
      "of its limits",
      { agents: { a: { type: "echo", limits: { timeoutMS: 1 } } } },
      'agents.a.limits: unknown key "timeoutMS" (did you mean "timeoutMs"?)',
    ],
    [
      "of its backoff",
      { agents: { a: { type: "echo", retry: { backoff: { delay: 1 } } } } },
      'agents.a.retry.backoff: unknown key "delay" (did you mean "delayMs"?)',
    ],
    [
      "of a lane",
      { lanes: { l: { concurency: 1 } } },
      'lanes.l: unknown key "concurency" (did you mean "concurrency"?)',
    ],
    [
      "type",
      { agents: { a: { type: "comand" } } },
      'agents.a.type: must be one of chat, command, module, echo, noop, scripted, sim (did you mean "command"?)',
    ],
    ["of the retention", { retention: { maxAge: 1 } }, 'retention: unknown key "maxAge" (did you mean "maxAgeMs"?)'],
    ["wrong value", { lanes: { l: { concurrency: 0 } } }, "lanes.l.concurrency: must be at least 1"],
    ["wrong limit", { lanes: { l: { requestsPerMinute: 0 } } }, "lanes.l.requestsPerMinute: must be at least 1"],
    ["missing value", { agents: { a: { type: "command" } } }, "agents.a.command: is missing"],
  ])("a key that is wrong is named with the nearest known one: %s", (_name, content, message) => {
    expect(() => checkConfig(content, "turnq.config.json")).toThrow(message);
  });

  it("fills in the environment, and leaves what is escaped", async () => {
    const file = join(folder, "turnq.config.json");
    const command = ["sh", "-c", "${PROGRAM} $${HOME} $HOME $$"];
    writeFileSync(file, JSON.stringify({ agents: { a: { type: "command", command } } }));
    const config = await loadConfig({ file, cwd: folder, env: { PROGRAM: "run" } });
    expect(config.agents["a"]).toMatchObject({ command: ["sh", "-c", "run ${HOME} $HOME $$"] });
    await expect(loadConfig({ file, cwd: folder, env: {} })).rejects.toThrow("${PROGRAM} is not set");
  });

  it("in TypeScript leaves no file behind", async () => {
    const temp = join(folder, "tmp");
    writeFileSync(
      join(folder, "turnq.config.ts"),
      "const agents: object = { a: { type: 'echo' } }; export default { agents };",
    );
    vi.stubEnv("TMPDIR", temp);
    const config = await loadConfig({ cwd: folder, env: {} });
    expect(Object.keys(config.agents)).toEqual(["a"]);
    expect(readdirSync(folder)).toEqual(["turnq.config.ts"]);
  });
});
