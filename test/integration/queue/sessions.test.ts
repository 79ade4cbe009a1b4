import { afterAll, beforeAll, expect, test } from "vitest";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import type { Action } from "../../../src/agents/scripted/script.ts";
import { validHistory, type Message } from "../../../src/domain/message.ts";
import { decode } from "../../../src/ledger/codec.ts";
import { laneKey } from "../../../src/ledger/keys.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Gate, Scene, until } from "./scene.ts";
import { defineAgent } from "../../../src/agent/define-agent.ts";

let server: ThrowAwayRedis;
let scene: Scene;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  scene = await Scene.open(server.url);
});
afterAll(async () => {
  await scene.close();
  await server.stop();
});

async function sessionMessages(lane: string, session: string): Promise<Message[]> {
  const stored = await scene.redis.lrangeBuffer(laneKey(lane, "messages", session), 0, -1);
  return stored.flatMap((bytes) => decode("messages", bytes, session).messages);
}

test("invariants 6 and 7, C27: a session of 20 turns of which 5 crash once is linear, over three workers", async () => {
  const agent = scriptedAgent("talk");
  for (let i = 0; i < 3; i++) await scene.worker([agent], { id: `talk-${i}` });
  const work: Action[] = [
    { call: true },
    { usage: { inputTokens: 3, outputTokens: 1 } },
    { tool: "look", result: "seen" },
    { stepEnd: true },
  ];
  const answer: Action[] = [...work, { call: true }, { say: "{iteration} after {history}" }];
  const crash: Action[] = [
    ...work,
    { call: true },
    { tool: "write", open: true },
    { say: "never kept" },
    { crash: "boom" },
  ];
  const turns = [];
  for (let i = 1; i <= 20; i++) {
    const script = i % 4 === 0 ? { "1": crash, "*": answer } : answer;
    turns.push(
      await scene.turnq.submit({
        agent: "talk",
        input: `say ${i}`,
        id: `t${i}`,
        session: "s",
        options: { script: JSON.parse(JSON.stringify(script)) },
        retry: { backoff: { delayMs: 5 } },
      }),
    );
  }
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 30_000 })));

  expect(results.map(({ iteration }) => iteration)).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
  expect(results.map(({ attempts }) => attempts.length)).toEqual(
    Array.from({ length: 20 }, (_, i) => ((i + 1) % 4 === 0 ? 2 : 1)),
  );
  const each = results[0]?.messages.length ?? 0;
  expect(results.map(({ output }) => output)).toEqual(
    Array.from({ length: 20 }, (_, i) => `${i + 1} after ${i * each}`),
  );

  const messages = await sessionMessages("talk", "s");
  expect(messages).toEqual(results.flatMap((result) => result.messages));
  expect(validHistory(messages)).toEqual(messages);
  expect(messages.flatMap((message) => (message.role === "user" ? [message.content] : []))).toEqual(
    turns.map((_, i) => `say ${i + 1}`),
  );
  expect(JSON.stringify(messages)).not.toContain("never kept");
  const facts = await scene.ledger("talk").facts("t4");
  expect((await scene.ledger("talk").attempt("t4", 1))?.record).toMatchObject({
    crashed: true,
    iteration: 4,
    output: "never kept",
  });
  expect(facts.attempts.map(({ status }) => status)).toEqual(["crashed", "completed"]);
  await scene.check("talk");
});

test("a turn that failed for good leaves the session as it was, and the next one runs", async () => {
  await scene.worker([scriptedAgent("fails")]);
  const say: Action[] = [{ say: "{iteration}/{history}" }];
  const submit = (id: string, script: Action[]) =>
    scene.turnq.submit({
      agent: "fails",
      input: id,
      id,
      session: "s2",
      options: { script: JSON.parse(JSON.stringify(script)) },
      retry: { maxAttempts: 1 },
    });
  const turns = [await submit("a", say), await submit("b", [{ crash: "no" }]), await submit("c", say)];
  const results = await Promise.all(turns.map((turn) => turn.result({ waitMs: 30_000 })));
  expect(results.map(({ ok, output }) => [ok, output])).toEqual([
    [true, "1/0"],
    [false, ""],
    [true, "2/2"],
  ]);
  await scene.check("fails");
});

test("a session never runs two turns at once, and one session does not hold up another", async () => {
  const running = new Map<string, number>();
  let most = 0;
  let together = 0;
  const agent = defineAgent("apart", async ({ text }) => {
    const session = text;
    running.set(session, (running.get(session) ?? 0) + 1);
    most = Math.max(most, running.get(session) ?? 0);
    together = Math.max(together, [...running.values()].filter((count) => count > 0).length);
    await new Promise((resolve) => setImmediate(resolve));
    running.set(session, (running.get(session) ?? 0) - 1);
    return "done";
  });
  await scene.publish(agent);
  const turns = [];
  for (let i = 0; i < 60; i++)
    turns.push(await scene.turnq.submit({ agent: "apart", input: `s${i % 6}`, session: `apart-${i % 6}` }));
  await scene.worker([agent], { concurrency: 6 });
  await scene.worker([agent], { concurrency: 6 });
  await Promise.all(turns.map((turn) => turn.result({ waitMs: 30_000 })));
  expect(most).toBe(1);
  expect(together).toBeGreaterThan(1);
  await scene.check("apart");
});

test("a session lives in one lane: another one is refused and nothing is stored", async () => {
  await scene.publish(
    defineAgent("one", () => "1"),
    defineAgent("two", () => "2"),
  );
  await scene.turnq.submit({ agent: "one", input: "x", session: "bound" });
  await expect(scene.turnq.submit({ agent: "two", input: "x", id: "refused", session: "bound" })).rejects.toMatchObject(
    { code: "session_lane" },
  );
  expect(await scene.ledger("two").row("refused")).toBeUndefined();
  expect(await scene.queue("two").getJobCountByTypes("wait", "delayed")).toBe(0);
});

test("a job of a parked turn that a tool promotes too early is parked again, and still runs in its place", async () => {
  const gate = new Gate();
  const order: string[] = [];
  const agent = defineAgent("early", async ({ text }) => {
    if (text === "a") await gate.opened;
    order.push(text);
    return text;
  });
  await scene.publish(agent);
  const first = await scene.turnq.submit({ agent: "early", input: "a", id: "a", session: "e" });
  const second = await scene.turnq.submit({ agent: "early", input: "b", id: "b", session: "e" });
  await scene.worker([agent]);
  await until(async () => (await scene.ledger("early").row("a"))?.state === "running");
  const job = await scene.queue("early").getJob("b");
  await job?.promote();
  await until(async () => {
    const [started, delayed] = await Promise.all([
      scene.redis.hget(scene.bull("early", "b"), "ats"),
      scene.redis.zscore(scene.bull("early", "delayed"), "b"),
    ]);
    return started === "1" && delayed !== null;
  }, "the second parking");
  expect(await scene.ledger("early").row("b")).toMatchObject({ state: "parked", attempt: 0 });
  gate.open();
  await Promise.all([first.result({ waitMs: 20_000 }), second.result({ waitMs: 20_000 })]);
  expect(order).toEqual(["a", "b"]);
  await scene.check("early");
});
