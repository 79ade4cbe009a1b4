import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { AgentLike } from "../../../src/app.ts";
import { defineAgent, type AgentFunction } from "../../../src/agent/define-agent.ts";
import { chatAgent } from "../../../src/agents/chat/chat-agent.ts";
import { ChatConfig } from "../../../src/agents/chat/chat-config.ts";
import { FAILURE_POLICY, FailureCode } from "../../../src/domain/failure.ts";
import type { RetryInput, LimitsInput } from "../../../src/domain/limits.ts";
import type { TurnResult } from "../../../src/domain/turn-result.ts";
import { laneKey } from "../../../src/ledger/keys.ts";
import type { TurnHandle } from "../../../src/queue/turn-handle.ts";
import { ModelServer, type ModelReply } from "../../model-server.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Gate, inFolder, quickWorkerProcess, Scene, until } from "./scene.ts";

/**
 * Every row of `docs/failures.md`, provoked as it comes about in earnest: what it spends, what follows, what the Result
 * says, what BullMQ shows. A new code without a scenario does not type-check.
 */
interface Scenario {
  /** Provokes the failure until the turn has ended. The lane has the code's name. */
  readonly play: (lane: FailureCode) => Promise<TurnResult>;
  /** Attempts and crashes that were spent at the end. */
  readonly spent: readonly [attempts: number, crashes: number];
  /** How each attempt ended; the failure of all that failed is the scenario's. */
  readonly attempts: readonly TurnResult["status"][];
  readonly status: TurnResult["status"];
  readonly error?: RegExp;
  readonly bull: "completed" | "failed";
}

let server: ThrowAwayRedis;
let scene: Scene;
const models: ModelServer[] = [];
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  scene = await Scene.open(server.url);
});
afterAll(async () => {
  await scene.close();
  for (const model of models) await model.close();
  await server.stop();
});

const NO_WAIT = { delayMs: 1, jitter: 0 };
interface Asked {
  readonly retry?: RetryInput | undefined;
  readonly limits?: LimitsInput | undefined;
}

function submit(agent: string, { retry, limits }: Asked = {}): Promise<TurnHandle> {
  const backoff = { ...NO_WAIT };
  return scene.turnq.submit({ agent, id: `of-${agent}`, input: "x", limits, retry: { backoff, ...retry } });
}

/** Runs one turn of an agent as a program would that embeds turnq. */
async function play(
  agent: AgentLike,
  asked: Asked & { readonly onReady?: () => Promise<void> } = {},
): Promise<TurnResult> {
  const worker = scene.turnq.worker({ agents: [agent], concurrency: 2 });
  scene.onClose(() => worker.close({ limitMs: 5000 }));
  await worker.start();
  await scene.turnq.refreshAgents();
  await asked.onReady?.();
  return (await submit(agent.name, asked)).result({ waitMs: 60_000 });
}

/** A chat agent whose provider answers so. */
async function chat(name: string, reply: (request: number) => ModelReply): Promise<AgentLike> {
  const model = await ModelServer.start(({ number }) => reply(number));
  models.push(model);
  return { name, ...ChatConfig.parse({ type: "chat", baseUrl: model.baseUrl, model: "m" }) };
}

/** An agent that is a program of this one line. */
function program(name: string, code: string): AgentLike {
  return { name, type: "command", command: [process.execPath, "-e", code], output: "events", input: "json" };
}

/** A program that is there when its worker starts, and is taken away before the turn. */
async function goneProgram(lane: string, folder: string): Promise<TurnResult> {
  const path = join(folder, "answers");
  await writeFile(path, "#!/bin/sh\necho fine\n", { mode: 0o755 });
  const agent: AgentLike = { name: lane, type: "command", command: [path], output: "text", input: "text" };
  return play(agent, { onReady: () => rm(path) });
}

const refused = (status: number, body = "{}", headers: Record<string, string> = {}): ModelReply => ({
  status,
  body,
  headers,
});

/**
 * A provider refuses again and again: with one attempt to spend the turn goes on, until its first start is a day ago. That
 * is said by the stored instant, not by a day of waiting.
 */
async function refusedForADay(lane: FailureCode, refusal: ModelReply): Promise<TurnResult> {
  let refusals = 0;
  const agent = await chat(lane, () => {
    refusals += 1;
    return refusal;
  });
  const result = play(agent, { retry: { maxAttempts: 1, maxCrashes: 1 } });
  await until(() => refusals === 2, "a second refusal");
  const row = laneKey(lane, "row", `of-${lane}`);
  const startedAt = Number(await scene.redis.hget(row, "startedAt"));
  expect(startedAt).toBeGreaterThan(0);
  await scene.redis.hset(row, "startedAt", startedAt - 24 * 3_600_000);
  return result;
}
const REFUSED_FOR_A_DAY = {
  spent: [0, 0],
  attempts: ["failed", "failed", "failed"],
  status: "failed",
  bull: "completed",
} as const;

/** What ends at once, and would fail again. */
const ENDS = { spent: [1, 0], attempts: ["failed"], status: "failed" } as const;

const SCENARIOS: Readonly<Record<FailureCode, Scenario>> = {
  agent_error: {
    play: async (lane) => play(await chat(lane, () => refused(500)), { retry: { maxAttempts: 2 } }),
    spent: [2, 0],
    attempts: ["failed", "failed"],
    status: "failed",
    error: /provider answered 500/,
    bull: "completed",
  },
  agent_crash: {
    play: (lane) => play(program(lane, 'process.kill(process.pid, "SIGKILL")'), { retry: { maxAttempts: 3 } }),
    spent: [3, 0],
    attempts: ["crashed", "crashed", "crashed"],
    status: "crashed",
    error: /SIGKILL/,
    bull: "failed",
  },
  worker_lost: {
    play: (lane) => inFolder((folder) => poison(lane, folder)),
    spent: [0, 3],
    attempts: ["lost", "lost", "lost"],
    status: "lost",
    error: /poison-3 died or was cut off: lost worker 3 of the 3 that maxCrashes allows/,
    bull: "failed",
  },
  timeout: {
    play: (lane) =>
      play(program(lane, "setInterval(() => undefined, 1e6)"), {
        limits: { timeoutMs: 300 },
        retry: { onTimeout: true, maxAttempts: 2 },
      }),
    spent: [2, 0],
    attempts: ["timeout", "timeout"],
    status: "timeout",
    error: /deadline of 300 ms/,
    bull: "failed",
  },
  idle_timeout: {
    play: async (lane) =>
      play(await chat(lane, () => ({ text: "so", then: "hang" })), { limits: { idleMs: 200, graceMs: 0 } }),
    spent: [1, 0],
    attempts: ["timeout"],
    status: "timeout",
    bull: "failed",
  },
  rate_limited: {
    play: (lane) => refusedForADay(lane, refused(429, "{}", { "retry-after": "1" })),
    ...REFUSED_FOR_A_DAY,
    error: /answered 429/,
  },
  overloaded: {
    play: (lane) => refusedForADay(lane, refused(503, "{}", { "retry-after": "1" })),
    ...REFUSED_FOR_A_DAY,
    error: /answered 503/,
  },
  quota_exhausted: {
    play: (lane) =>
      refusedForADay(lane, refused(429, '{"error":{"code":"insufficient_quota"}}', { "retry-after": "1" })),
    ...REFUSED_FOR_A_DAY,
    error: /answered 429/,
  },
  interrupted: {
    play: deploys,
    spent: [0, 0],
    attempts: [...Array<"interrupted">(6).fill("interrupted"), "completed"],
    status: "completed",
    bull: "completed",
  },
  cancelled: {
    play: async (lane) => {
      const running = new Gate();
      const agent = defineAgent(lane, async ({ signal }) => {
        running.open();
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("over"))));
      });
      const result = play(agent, { limits: { graceMs: 0 } });
      await running.opened;
      await (await scene.turnq.turn(`of-${lane}`)).cancel({ reason: "changed my mind" });
      return result;
    },
    spent: [0, 0],
    attempts: ["cancelled"],
    status: "cancelled",
    error: /changed my mind/,
    bull: "completed",
  },
  expired: {
    play: async (lane) => {
      const agent = defineAgent(lane, () => "never");
      await scene.publish(agent);
      await scene.turnq.submit({ agent: lane, id: `of-${lane}`, input: "x", expiresInMs: 1 });
      const submittedAt = Date.now();
      await until(() => Date.now() > submittedAt + 5);
      await scene.worker([agent]);
      return (await scene.turnq.turn(`of-${lane}`)).result({ waitMs: 60_000 });
    },
    spent: [0, 0],
    attempts: [],
    status: "expired",
    bull: "failed",
  },
  auth: {
    play: async (lane) => play(await chat(lane, () => refused(401))),
    ...ENDS,
    error: /answered 401/,
    bull: "failed",
  },
  config: {
    play: (lane) => inFolder((folder) => goneProgram(lane, folder)),
    ...ENDS,
    error: /answers/,
    bull: "failed",
  },
  invalid_request: {
    play: async (lane) => play(await chat(lane, () => refused(400))),
    ...ENDS,
    error: /answered 400/,
    bull: "failed",
  },
  context_overflow: {
    play: async (lane) =>
      play(await chat(lane, () => refused(400, '{"error":{"code":"context_length_exceeded","message":"too long"}}'))),
    ...ENDS,
    error: /too long/,
    bull: "completed",
  },
  refused: {
    play: async (lane) => play(await chat(lane, () => ({ text: "no", finish: "content_filter" }))),
    ...ENDS,
    bull: "completed",
  },
  output_too_large: {
    play: (lane) => {
      const line = `process.stdout.write(JSON.stringify({type: "result", output: "x".repeat(9e6)}) + "\\n")`;
      return play(program(lane, line));
    },
    ...ENDS,
    error: /over the limit of a line/,
    bull: "completed",
  },
  out_of_memory: {
    play: (lane) =>
      play(program(lane, "const a = []; setInterval(() => a.push(Buffer.alloc(2e7, 1)), 5)"), {
        limits: { maxMemoryMb: 150 },
        retry: { onOutOfMemory: true, maxAttempts: 2 },
      }),
    spent: [2, 0],
    attempts: ["crashed", "crashed"],
    status: "crashed",
    error: /limits\.maxMemoryMb of 150/,
    bull: "failed",
  },
  internal: {
    // A worker that forgot to prepare an agent: no fault of the agent or the turn.
    play: async (lane) => {
      const config = ChatConfig.parse({ type: "chat", baseUrl: "http://127.0.0.1:9/v1", model: "m" });
      const spec = chatAgent(lane, config, { baseDir: ".", env: {} });
      await scene.publish(spec);
      await scene.worker([spec]);
      return (await submit(lane, { retry: { maxAttempts: 2 } })).result({ waitMs: 60_000 });
    },
    spent: [2, 0],
    attempts: ["failed", "failed"],
    status: "failed",
    error: /was not prepared/,
    bull: "failed",
  },
};

/** Six deploys in the middle of a turn that may spend one attempt and lose no worker. */
async function deploys(lane: string): Promise<TurnResult> {
  let started = new Gate();
  let last = false;
  const run: AgentFunction = async ({ emit, shouldStop }) => {
    emit.usage({ inputTokens: 1 });
    started.open();
    if (last) return "done";
    await until(() => shouldStop(), "the shutdown");
    return undefined;
  };
  const agent = defineAgent(lane, run);
  await scene.publish(agent);
  const turn = await submit(lane, { retry: { maxAttempts: 1, maxCrashes: 1 } });
  for (let deploy = 1; deploy <= 6; deploy += 1) {
    const worker = await scene.worker([agent]);
    await started.opened;
    started = new Gate();
    last = deploy === 6;
    expect(await worker.close()).toMatchObject({ complete: true, abandoned: 0 });
  }
  await scene.worker([agent]);
  const result = await turn.result({ waitMs: 60_000 });
  expect(result.usage).toMatchObject({ inputTokens: 7, known: "reported" });
  return result;
}

/**
 * A turn that kills its worker at each start, and others that run beside it in the same worker when it first does.
 * Nobody but this test starts workers anew.
 */
async function poison(lane: string, folder: string): Promise<TurnResult> {
  const go = join(folder, "go");
  const others = Array.from({ length: 5 }, (_, i) => `other-${i}`);
  const agents = [lane];
  let [worker, started] = [await quickWorkerProcess(server.url, "poison-1", agents), 1];
  scene.onClose(async () => {
    worker.kill("SIGKILL");
    await worker.ended;
  });
  await scene.turnq.refreshAgents();
  const beside = await Promise.all(
    others.map((id) => {
      const script = { "1": [{ append: go, line: id }, { hang: true }], "*": [{ say: "fine" }] };
      return scene.turnq.submit({ agent: lane, id, input: "x", options: { script }, retry: { backoff: NO_WAIT } });
    }),
  );
  await until(async () => (await readFile(go, "utf8").catch(() => "")).split("\n").length > others.length);
  const script = [{ call: true }, { usage: { inputTokens: 7 } }, { say: "half" }, { wait: 300 }, { exit: "SIGKILL" }];
  const turn = await scene.turnq.submit({
    agent: lane,
    id: `of-${lane}`,
    input: "x",
    options: { script },
    retry: { backoff: NO_WAIT, maxAttempts: 1 },
  });
  let result: TurnResult | undefined;
  const settled = turn.result({ waitMs: 100_000 }).then((found) => (result = found));
  while (result === undefined) {
    const how = await Promise.race([worker.ended, settled]);
    if (typeof how === "object") break;
    expect(how).toBe("SIGKILL");
    started += 1;
    worker = await quickWorkerProcess(server.url, `poison-${started}`, agents);
  }
  // Three deaths, and the worker that closed the last attempt as lost.
  expect(started).toBe(4);
  for (const other of beside)
    expect(await other.result({ waitMs: 60_000 })).toMatchObject({ ok: true, output: "fine" });
  const final = await settled;
  expect(final.usage).toMatchObject({ inputTokens: 21, modelCalls: 3, known: "reported" });
  for (const attempt of [1, 2, 3])
    expect((await scene.ledger(lane).attempt(turn.id, attempt))?.record).toMatchObject({
      status: "lost",
      crashed: true,
      output: "half",
      usage: { inputTokens: 7 },
    });
  return final;
}

test.concurrent.each(FailureCode.options)(
  "%s: what it spends, what follows, what the Result says, what BullMQ shows",
  async (code) => {
    const { play: provoke, spent, attempts, status, error, bull } = SCENARIOS[code];
    const result = await provoke(code);
    expect(result.attempts.map((attempt) => attempt.status)).toEqual(attempts);
    expect(result).toMatchObject({ status, ok: status === "completed" });
    const policy = FAILURE_POLICY[code];
    for (const { status: how, failure } of result.attempts)
      if (how !== "completed") expect(failure).toMatchObject({ code });
    if (status !== "completed") expect(result.failure).toMatchObject({ code });
    if (error !== undefined) expect(result.error).toMatch(error);
    // Nothing is lost of what attempts before the last one used.
    expect(result.wastedUsage.inputTokens ?? 0).toBe(
      (result.usage.inputTokens ?? 0) - (status === "completed" ? (result.attempts.at(-1)?.usage.inputTokens ?? 0) : 0),
    );
    const facts = await scene.ledger(code).facts(`of-${code}`);
    expect([facts.spent, facts.crashes]).toEqual(spent);
    if (policy.spends === "nothing") expect(spent).toEqual([0, 0]);
    expect(await scene.told(code, `of-${code}`)).toBe(bull);
    const job = await scene.queue(code).getJob(`of-${code}`);
    expect(job?.returnvalue).toMatchObject({ v: 1, turn: `of-${code}`, status });
    if (bull === "failed") expect(job?.failedReason).toBe(result.error);
    await scene.check(code);
  },
);
