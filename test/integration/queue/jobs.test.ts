import { afterAll, beforeAll, expect, test } from "vitest";
import { defineAgent, type AgentCall } from "../../../src/agent/define-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { failure, FAILURE_MESSAGE_MAX } from "../../../src/domain/failure.ts";
import { laneTag } from "../../../src/ledger/keys.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Scene, until } from "./scene.ts";

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

async function finished(agent: string, job: string) {
  const state = await scene.told(agent, job);
  return { state, job: await until(() => scene.queue(agent).getJob(job)) };
}

test("a completed job has the TurnResult as its return value and the records of its crashed attempts in its data", async () => {
  await scene.worker([
    scriptedAgent("back", {
      script: {
        "1": [{ call: true }, { usage: { inputTokens: 2 } }, { say: "half" }, { crash: "boom" }],
        "*": [{ say: "whole" }],
      },
    }),
  ]);
  const turn = await scene.turnq.submit({
    agent: "back",
    input: "hi",
    id: "t1",
    labels: { team: "x" },
    retry: { backoff: { delayMs: 1 } },
  });
  const result = await turn.result({ waitMs: 20_000 });
  const { state, job } = await finished("back", "t1");
  expect(state).toBe("completed");
  expect(job.returnvalue).toEqual(result);
  expect(job.name).toBe("back");
  expect(job.data).toMatchObject({
    v: 1,
    turn: "t1",
    agent: "back",
    input: "hi",
    labels: { team: "x" },
    crashed: [{ attempt: 1, status: "crashed", crashed: true, output: "half", usage: { inputTokens: 2 } }],
  });
  const record = (await scene.ledger("back").attempt("t1", 1))?.record;
  expect(job.data.crashed).toEqual([JSON.parse(JSON.stringify(record))]);
  expect(await scene.redis.hget(scene.bull("back", "t1"), "told")).toBe("1");
});

test.each([
  ["crash", [{ crash: "boom" }], "crashed", "failed"],
  ["timeout", [{ say: "so far" }, { hang: true }], "timeout", "failed"],
  ["refused configuration", [{ fail: failure("config", "no such model") }], "failed", "failed"],
  ["failure of the agent's own", [{ fail: failure("agent_error", "the model said no") }], "failed", "completed"],
] as const)(
  "a turn that ended by a %s: the job's state, return value and reason",
  async (what, script, status, state) => {
    const name = `end-${what.replaceAll(/\W/g, "-")}`;
    await scene.worker([scriptedAgent(name, { script: [...script] })]);
    const turn = await scene.turnq.submit({
      agent: name,
      input: "x",
      id: "t1",
      limits: { timeoutMs: status === "timeout" ? 150 : 20_000, graceMs: 0 },
      retry: { maxAttempts: 1 },
    });
    const result = await turn.result({ waitMs: 20_000 });
    expect(result.status).toBe(status);
    const { state: found, job } = await finished(name, "t1");
    expect(found).toBe(state);
    expect(job.returnvalue).toEqual(result);
    expect(await scene.redis.hget(scene.bull(name, "t1"), "told")).toBe("1");
    if (state === "failed") expect(job.failedReason).toBe(result.error);
    expect(job.data.crashed).toHaveLength(status === "failed" ? 0 : 1);
  },
);

test("A40: long messages and outputs stay in the ledger; the return value says how much there is", async () => {
  const long = "y".repeat(50_000);
  await scene.worker([defineAgent("long", () => long)]);
  const turn = await scene.turnq.submit({ agent: "long", input: "x".repeat(10_000), id: "t1" });
  const result = await turn.result({ waitMs: 20_000 });
  expect(result.output).toBe(long);
  const { job } = await finished("long", "t1");
  expect(JSON.stringify(job.returnvalue).length).toBeLessThan(25_000);
  expect(job.returnvalue).toMatchObject({
    ok: true,
    messages: [],
    elsewhere: { messages: result.messages.length, outputChars: 50_000 },
  });
  expect(job.data.input).toHaveLength(2048);
});

test("A28: an error of 2 MB is cut, on the job, in the Result and in the records", async () => {
  await scene.worker([scriptedAgent("loud", { script: [{ crash: "E".repeat(2_000_000) }] })]);
  const turn = await scene.turnq.submit({
    agent: "loud",
    input: "x",
    id: "t1",
    retry: { maxAttempts: 3, backoff: { delayMs: 1 } },
  });
  const result = await turn.result({ waitMs: 20_000 });
  expect(result.attempts).toHaveLength(3);
  expect(result.error?.length).toBeLessThanOrEqual(FAILURE_MESSAGE_MAX);
  expect(result.error?.endsWith("…")).toBe(true);
  const { job } = await finished("loud", "t1");
  expect(job.failedReason.length).toBeLessThanOrEqual(1000);
  expect(job.stacktrace).toEqual([]);
  expect((await scene.ledger("loud").attempt("t1", 1))?.record.crashReason).toHaveLength(200);
  const hash = await scene.redis.hgetall(scene.bull("loud", "t1"));
  expect(JSON.stringify(hash).length).toBeLessThan(60_000);
});

const cycle: Record<string, unknown> = {};
cycle["self"] = cycle;
const UNSERIALISABLE: readonly (readonly [string, unknown])[] = [
  ["a BigInt", 10n],
  ["an object with a BigInt", { output: 10n }],
  ["a cycle", cycle],
  ["a Map", new Map([["a", 1]])],
  ["a function", () => 1],
  [
    "a throwing toJSON",
    {
      toJSON: () => {
        throw new Error("no");
      },
    },
  ],
  [
    "a throwing getter",
    Object.defineProperty({}, "output", {
      get: () => {
        throw new Error("no");
      },
    }),
  ],
  ["messages that are none", { output: "x", messages: [{ role: "robot", content: 1n }] }],
];

test.each(UNSERIALISABLE)(
  "A26: an agent that answers with %s is run once, and its usage is kept",
  async (what, answer) => {
    const name = `odd-${what.replaceAll(" ", "-")}`;
    let runs = 0;
    const agent = defineAgent(name, ({ emit }: AgentCall) => {
      runs += 1;
      emit.usage({ inputTokens: 4 });
      emit.toolEnd(emit.toolStart("t", { big: 1n, cycle }), answer);
      return answer as string;
    });
    await scene.worker([agent]);
    const turn = await scene.turnq.submit({
      agent: name,
      input: "x",
      id: "t1",
      retry: { maxAttempts: 3, backoff: { delayMs: 1 } },
    });
    const result = await turn.result({ waitMs: 20_000 });
    expect(result.usage.inputTokens).toBe(4);
    expect(runs).toBe(1);
    if (what.includes("BigInt")) expect(result).toMatchObject({ ok: true, output: "10" });
    const { job } = await finished(name, "t1");
    expect(job.returnvalue).toEqual(result);
    await scene.check(name);
  },
);

test("told is written by BullMQ's own finish, in one step with the state, for completed and for failed jobs", async () => {
  // The wrapped backend rests on a protected method of BullMQ's: this fails when that changes.
  await scene.worker([
    scriptedAgent("told", { script: { "1": [{ say: "x" }] } }),
    scriptedAgent("told-failed", { script: [{ crash: "x" }] }),
  ]);
  for (const [agent, state] of [
    ["told", "completed"],
    ["told-failed", "failed"],
  ] as const) {
    const turn = await scene.turnq.submit({ agent, input: "x", id: "t1", retry: { maxAttempts: 1 } });
    const result = await turn.result({ waitMs: 20_000 });
    expect(await scene.told(agent, "t1")).toBe(state);
    const [told, returned] = await scene.redis.hmget(scene.bull(agent, "t1"), "told", "returnvalue");
    expect(told).toBe("1");
    expect(JSON.parse(returned ?? "")).toEqual(result);
  }
});

test("progress is on the job while the turn runs: attempt, steps, tokens and the last thing that happened", async () => {
  const agent = defineAgent("progress", async ({ emit, turn }) => {
    emit.stepStart();
    void emit.call();
    emit.usage({ inputTokens: 30, outputTokens: 12 });
    emit.text("working on it");
    await until(
      async () => (await scene.redis.hget(scene.bull("progress", turn), "progress"))?.startsWith("{"),
      "the progress",
    );
    return "done";
  });
  await scene.worker([agent]);
  const turn = await scene.turnq.submit({ agent: "progress", input: "x", id: "t1" });
  await turn.result({ waitMs: 20_000 });
  const { job } = await finished("progress", "t1");
  expect(job.progress).toEqual({ attempt: 1, steps: 1, tokens: 42, last: "working on it" });
});

test("nothing of a turn's job depends on its data: a job whose data a tool replaced runs what is stored", async () => {
  const agent = defineAgent("trust", ({ text }) => text);
  await scene.publish(agent);
  const turn = await scene.turnq.submit({ agent: "trust", input: "stored", id: "t1" });
  const job = await until(() => scene.queue("trust").getJob("t1"));
  await job.updateData({ v: 1, turn: "other", agent: "other", input: "forged", crashed: [] });
  await scene.worker([agent]);
  expect(await turn.result({ waitMs: 20_000 })).toMatchObject({ ok: true, output: "stored" });
  expect(laneTag("trust")).toBe("{turnq:trust}");
});

test("D23: with many attempts of large records none gets slower: what the job shows of the old ones is not read again", async () => {
  const agent = defineAgent("grows", ({ attempt, emit }) => {
    emit.text(`${attempt} ${"x".repeat(100_000)}`);
    throw new Error("again");
  });
  const read: string[] = [];
  await scene.worker([agent], {
    prepare: (redis) => {
      const send = redis.getBuffer.bind(redis);
      redis.getBuffer = ((key: string) => (read.push(key), send(key))) as typeof redis.getBuffer;
    },
  });
  const retry = { maxAttempts: 30, backoff: { delayMs: 0 } };
  const result = await (
    await scene.turnq.submit({ agent: "grows", input: "x", id: "t1", retry })
  ).result({
    waitMs: 20_000,
  });
  expect(result.attempts).toHaveLength(30);
  const { job } = await finished("grows", "t1");
  const shown = job.data.crashed as { attempt: number; output: string }[];
  expect(shown.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 20 }, (_, i) => i + 11));
  expect(shown[0]?.output).toHaveLength(500);
  expect(read).toEqual([]);
});

test("D23: what a tool took from a job's data, or wrote there, of the attempts that crashed is read from the ledger", async () => {
  const agent = defineAgent("taken", ({ attempt }) => {
    throw new Error(`boom ${attempt}`);
  });
  await scene.worker([agent]);
  const retry = { maxAttempts: 3, backoff: { delayMs: 60_000 } };
  const turn = await scene.turnq.submit({ agent: "taken", input: "x", id: "t1", retry });
  const backsOff = async (shown: number) => {
    const job = await until(() => scene.queue("taken").getJob("t1"));
    return (await job.isDelayed()) && job.data.crashed.length === shown ? job : undefined;
  };
  await (await until(() => backsOff(1))).promote();
  const job = await until(() => backsOff(2));
  await job.updateData({ v: 1, crashed: [null, { attempt: 1, crashReason: "forged" }] });
  await job.promote();
  await turn.result({ waitMs: 20_000 });
  const data = (await finished("taken", "t1")).job.data as { turn: string; crashed: { crashReason: string }[] };
  expect(data.turn).toBe("t1");
  expect(data.crashed.map(({ crashReason }) => crashReason)).toEqual([1, 2, 3].map((n) => `boom ${n}`));
});
