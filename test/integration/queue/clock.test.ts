import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { TIMER_MAX_MS } from "../../../src/domain/limits.ts";
import { SILENT, type Log } from "../../../src/telemetry/log.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Gate, Scene, until } from "./scene.ts";

const HOUR_MS = 3_600_000;

let server: ThrowAwayRedis;
let scene: Scene;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  scene = await Scene.open(server.url);
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(async () => {
  await scene.close();
  await server.stop();
});

/** Sets the clock of this process, which every worker in it shares. */
function setClock(byMs: number): void {
  const now = Date.now.bind(Date);
  vi.spyOn(Date, "now").mockImplementation(() => now() + byMs);
}

test.each([
  ["forward", HOUR_MS],
  ["back", -HOUR_MS],
])(
  "a clock that is set %s by an hour ends no running turn early and hangs none; it is told of once",
  async (way, byMs) => {
    const lane = `set-${way}`;
    const jumps: unknown[] = [];
    const log: Log = { ...SILENT, warn: (facts) => void jumps.push(...("code" in facts ? [facts["code"]] : [])) };
    const gate = new Gate();
    const agent = defineAgent(lane, async ({ text, signal }) => {
      if (text === "hangs")
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("x"))));
      if (text === "waits") await gate.opened;
      return text;
    });
    const { worker } = await scene.worker([agent], { log });
    const submit = (input: string, timeoutMs: number) =>
      scene.turnq.submit({ agent: lane, id: `${way}-${input}`, input, limits: { timeoutMs, graceMs: 0 } });
    const running = [await submit("waits", 60_000), await submit("hangs", 3000)];
    await until(() => worker.running === 2);
    const deadlineMs = (worker.deadlineAt ?? 0) - Date.now();
    setClock(byMs);
    expect(deadlineMs).toBeGreaterThan((worker.deadlineAt ?? 0) - Date.now() - 1000);
    expect((worker.deadlineAt ?? 0) - Date.now()).toBeLessThanOrEqual(3000);
    // What comes after the jump runs as it would without.
    const after = await submit("after", 60_000);
    expect(await after.result({ waitMs: 30_000 })).toMatchObject({ ok: true, attempts: [{ attempt: 1 }] });
    await until(() => jumps.length > 0, "a word of the jump");
    gate.open();
    const [waited, hung] = await Promise.all(running.map((turn) => turn.result({ waitMs: 30_000 })));
    expect(waited).toMatchObject({ ok: true, attempts: [{ attempt: 1, status: "completed" }] });
    expect(hung).toMatchObject({ status: "timeout", attempts: [{ attempt: 1 }] });
    // The jump is in no figure of time: these are what has passed.
    for (const result of [waited, hung])
      for (const { startedAt, endedAt } of result?.attempts ?? [])
        expect(endedAt - startedAt).toBeLessThan(HOUR_MS / 2);
    expect(jumps).toEqual(["clock_jumped"]);
    await scene.check(lane);
  },
);

test("C48: limits, delays and waits beyond 2^31 ms: nothing fires at once, and a turn under them runs as any other", async () => {
  const far = TIMER_MAX_MS * 20;
  const agent = defineAgent("far", ({ text }) => text);
  await scene.worker([agent]);
  const limits = { timeoutMs: far, graceMs: far, idleMs: far };
  const turn = await scene.turnq.submit({ agent: "far", id: "now", input: "x", limits, expiresInMs: far });
  expect(await turn.result({ waitMs: far })).toMatchObject({ ok: true, status: "completed" });
  const later = await scene.turnq.submit({ agent: "far", id: "later", input: "x", limits, delayMs: far });
  const row = await later.row();
  expect(row).toMatchObject({ state: "delayed" });
  await later.cancel({ reason: "enough" });
  expect(await later.result({ waitMs: far })).toMatchObject({ status: "cancelled", attempts: [] });
  await scene.check("far");
});
