import { afterAll, beforeAll, expect, test } from "vitest";
import { openTurnq } from "../../../src/app.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";

let redis: ThrowAwayRedis;
beforeAll(async () => {
  redis = await throwAwayRedis();
});
afterAll(async () => {
  await redis.stop();
});

test("a turn goes from submit to its Result", async () => {
  const upper = defineAgent("upper", ({ text }) => text.toUpperCase());
  const turnq = await openTurnq({ redis: redis.url, agents: [upper] });
  const worker = turnq.worker({ concurrency: 4 });
  await worker.start();
  const turn = await turnq.submit({ agent: "upper", input: "hello" });
  const result = await turn.result({ waitMs: 10_000 });
  expect(result).toMatchObject({ ok: true, output: "HELLO", status: "completed", generation: 1 });
  const events = [];
  for await (const event of turn.events()) events.push(event.type);
  expect(events).toEqual(["agent_start", "agent_end", "turn_completed"]);
  console.log(JSON.stringify(result));
  await turnq.close();
});

test("a crash, then an answer", async () => {
  const flaky = defineAgent("flaky", ({ attempt, emit }) => {
    emit.text("half");
    if (attempt === 1) throw new Error("boom");
    return "whole";
  });
  const turnq = await openTurnq({ redis: redis.url, agents: [flaky] });
  const worker = turnq.worker({ concurrency: 4 });
  await worker.start();
  const turn = await turnq.submit({ agent: "flaky", input: "hello", retry: { backoff: { delayMs: 10 } } });
  const result = await turn.result({ waitMs: 10_000 });
  console.log(JSON.stringify(result, null, 1));
  expect(result.attempts.map((a) => a.status)).toEqual(["crashed", "completed"]);
  for await (const event of turn.events()) console.log(JSON.stringify(event));
  await turnq.close();
});
