import { describe, expect, test } from "vitest";
import { runAttempt } from "../../../src/agent/attempt.ts";
import { chatAgent } from "../../../src/agents/chat/chat-agent.ts";
import { startOptions, storedRequest } from "../../agents.ts";
import { ModelServer, type ModelReply } from "../../model-server.ts";
import { KEY, modelServer, play, TOOLS_FOLDER } from "./chat-scene.ts";

describe("a turn on a model", () => {
  test("answers with text, its usage and its cost; the key goes out as a header", async () => {
    const price = { inputPerMTok: 1, outputPerMTok: 2 };
    const { record, events, server } = await play(
      { text: "hi" },
      { system: "be short", price, options: { temperature: 0.5 } },
    );
    expect(record).toMatchObject({
      status: "completed",
      output: "hi",
      usage: { inputTokens: 7, outputTokens: 4, cacheReadTokens: 3, modelCalls: 1, known: "reported" },
      environment: { model: "m", finishReason: "stop" },
    });
    expect(record.usage.costUsd).toBeCloseTo((7 + 3 + 8) / 1e6, 12);
    expect(events.map(({ type }) => type).filter((type) => type === "call_start")).toHaveLength(1);
    const [request] = server.requests;
    expect(request?.headers.authorization).toBe(`Bearer ${KEY}`);
    expect(request?.body).toMatchObject({
      model: "m",
      temperature: 0.5,
      stream_options: { include_usage: true },
      messages: [
        { role: "system", content: "be short" },
        { role: "user", content: "hello" },
      ],
    });
  });

  test("calls its tools and adds the steps' usage up; a tool that throws tells the model so", async () => {
    const { record, server } = await play(
      ({ number }) =>
        number === 1
          ? { tool: { name: "add", args: '{"a":41}' } }
          : number === 2
            ? { tool: { name: "fail", args: "" } }
            : { text: "42" },
      { tools: "./tools.mjs" },
    );
    expect(record).toMatchObject({
      status: "completed",
      output: "42",
      usage: { outputTokens: 12, modelCalls: 3, toolCalls: 2 },
    });
    const calls = record.steps.flatMap((step) => step.toolCalls);
    expect(calls).toMatchObject([
      { name: "add", status: "ok", result: { sum: 42, turn: "t1", attempt: 1, idempotencyKey: "t1~1" } },
      { name: "fail", status: "error", result: "no luck", args: {} },
    ]);
    expect(JSON.stringify(server.requests[2]?.body.messages)).toContain("no luck");
  });

  test("the call is made only when its announcement is stored", async () => {
    const order: string[] = [];
    let release = (_may: boolean): void => undefined;
    const stored = new Promise<boolean>((resolve) => (release = resolve));
    const asked = play(
      () => {
        order.push("called");
        return { text: "hi" };
      },
      {},
      {
        onEvent: (event) => {
          if (event.type !== "call_start") return undefined;
          setImmediate(() => {
            order.push("stored");
            release(true);
          });
          return stored;
        },
      },
    );
    await asked;
    expect(order).toEqual(["stored", "called"]);
  });

  test("no call is made for an attempt that is no longer the current one", async () => {
    const server = await modelServer(() => ({ text: "hi" }));
    const config = { type: "chat", provider: "openai-compatible", baseUrl: server.baseUrl, model: "m" } as const;
    const spec = chatAgent("gpt", config, { baseDir: TOOLS_FOLDER, env: {} });
    await spec.prepare?.();
    const { record } = await runAttempt({
      spec,
      request: storedRequest({ input: "hello" }),
      attempt: 1,
      iteration: 1,
      generation: 1,
      history: [],
      before: { steps: 0, toolCalls: 0, tokens: 0, costUsd: 0 },
      mark: "",
      start: startOptions(),
      onEvent: (event) => (event.type === "call_start" ? Promise.resolve(false) : undefined),
    }).done;
    expect(record.crashed).toBe(true);
    expect(server.requests).toHaveLength(0);
  });

  test("stops at a step's boundary when its steps are used up, and keeps what it has", async () => {
    const request = storedRequest({ input: "hello", limits: { maxSteps: 2 } });
    const { record, stopReason, server } = await play(
      { tool: { name: "add", args: '{"a":1}' } },
      { tools: "./tools.mjs" },
      { request },
    );
    expect([record.status, stopReason, server.requests.length]).toEqual(["limit_reached", "max_steps", 2]);
  });

  test("stops when the cost limit is reached, over all attempts", async () => {
    const request = storedRequest({ input: "hello", limits: { maxCostUsd: 1 } });
    const price = { inputPerMTok: 0, outputPerMTok: 100_000 };
    const before = { steps: 0, toolCalls: 0, tokens: 0, costUsd: 0.3 };
    const { stopReason, server } = await play(
      { tool: { name: "add", args: '{"a":1}' } },
      { tools: "./tools.mjs", price },
      { request, before },
    );
    expect([stopReason, server.requests.length]).toEqual(["max_cost", 2]);
  });
});

describe("C32: usage in odd places", () => {
  test("usage in two chunks is counted once, as the last one says", async () => {
    const usage = [
      { prompt_tokens: 10, completion_tokens: 1 },
      { prompt_tokens: 10, completion_tokens: 4 },
    ];
    const { record } = await play({ text: "hi", usage });
    expect(record.usage).toMatchObject({ inputTokens: 10, outputTokens: 4, modelCalls: 1, known: "reported" });
  });

  test("a provider that reports none is a crash, unless its config says that it reports none", async () => {
    const { record } = await play({ text: "hi", usage: null });
    expect(record).toMatchObject({ status: "crashed", usage: { known: "unknown" } });
    const { record: allowed } = await play({ text: "hi", usage: null }, { reportsTokens: false });
    expect(allowed).toMatchObject({ status: "completed", output: "hi", usage: { known: "unknown" } });
  });
});

/** Whether the failure says that it may pass. */
function isPassing(code: string): boolean {
  return ["rate_limited", "overloaded", "quota_exhausted", "agent_error"].includes(code);
}

describe("what a failed call means", () => {
  const SOON = { "retry-after": "7" };
  test.each<[string, ModelReply, string, { readonly retryAfterS?: number; readonly retryable?: boolean }]>([
    ["429", { status: 429, headers: SOON }, "rate_limited", { retryAfterS: 7 }],
    [
      "429 for quota",
      { status: 429, body: '{"error":{"message":"x","code":"insufficient_quota"}}' },
      "quota_exhausted",
      {},
    ],
    ["529", { status: 529 }, "overloaded", {}],
    ["503 that says when", { status: 503, headers: SOON }, "overloaded", { retryAfterS: 7 }],
    ["500", { status: 500 }, "agent_error", { retryable: true }],
    ["401", { status: 401 }, "auth", {}],
    ["404", { status: 404 }, "config", {}],
    [
      "too long a prompt",
      { status: 400, body: '{"error":{"message":"maximum context length is 5"}}' },
      "context_overflow",
      {},
    ],
    ["a filtered prompt", { status: 400, body: '{"error":{"message":"no","code":"content_filter"}}' }, "refused", {}],
    ["a bad request", { status: 400 }, "invalid_request", {}],
    ["a filtered answer", { text: "no", finish: "content_filter" }, "refused", {}],
  ])("%s", async (_name, reply, code, { retryAfterS, retryable }) => {
    const { record } = await play(reply);
    expect(record).toMatchObject({ status: "failed", crashed: false, failure: { code } });
    if (retryable !== undefined) expect(record.failure?.retryable).toBe(retryable);
    if (retryAfterS === undefined) expect(record.failure?.retryAt).toBeUndefined();
    else expect(Math.abs((record.failure?.retryAt ?? 0) - record.endedAt - retryAfterS * 1000)).toBeLessThan(5000);
    // What was refused cost nothing: nobody needs a floor for it.
    expect(record.usage.known).toBe("reported");
  });

  test("a server that is not there is a failure that may pass, and costs nothing", async () => {
    const gone = await ModelServer.start(() => ({ status: 200 }));
    const { baseUrl } = gone;
    await gone.close();
    const { record } = await play({ status: 200 }, { baseUrl });
    expect(record).toMatchObject({
      status: "failed",
      failure: { code: "agent_error", retryable: true },
      usage: { known: "reported" },
    });
  });

  test("a connection that ends before an answer is a failure that may pass; what it cost is not known", async () => {
    const { record } = await play({ first: "reset" });
    expect(record).toMatchObject({
      status: "failed",
      failure: { code: "agent_error", retryable: true },
      usage: { known: "unknown" },
    });
  });

  test.each<[string, object | string, string, boolean?]>([
    ["a code that is a number", { error: { message: "Rate limit exceeded", code: 429 } }, "rate_limited"],
    ["a code that is a number in a text", { error: { message: "later", code: "529" } }, "overloaded"],
    ["a code that is a name", { error: { message: "no", code: "insufficient_quota" } }, "quota_exhausted"],
    ["a type", { error: { message: "Overloaded", type: "overloaded_error" } }, "overloaded"],
    ["a key that is refused", { error: { message: "no", code: "invalid_api_key" } }, "auth"],
    ["a text in place of an object", { error: "Too many requests, slow down" }, "rate_limited"],
    [
      "no object around it",
      'event: error\ndata: {"message":"too long","code":"context_length_exceeded"}\n\n',
      "context_overflow",
    ],
    [
      "an error in a choice",
      { choices: [{ index: 0, delta: {}, finish_reason: "stop", error: { code: 403 } }] },
      "auth",
    ],
    [
      "an error beside an empty choice",
      { error: { code: 503, message: "x" }, choices: [{ index: 0, delta: {} }] },
      "agent_error",
    ],
    ["one that nobody knows", { error: { message: "hm", code: "E77" } }, "agent_error"],
  ])("U03: an error inside of an answer means what its status would have meant: %s", async (_name, said, code) => {
    const [first, middle, paid] = await Promise.all([
      play({ then: { said } }),
      play({ text: "I sh", then: { said } }),
      play({ text: "I sh", usage: { prompt_tokens: 9, completion_tokens: 2 }, then: { said } }),
    ]);
    const failed = { status: "failed", crashed: false, failure: { code, retryable: isPassing(code) } };
    expect(first.record).toMatchObject({ ...failed, output: "", usage: { modelCalls: 1, known: "reported" } });
    expect(middle.record).toMatchObject({ ...failed, output: "I sh", usage: { modelCalls: 1, known: "unknown" } });
    // What it had said of usage is kept, as a floor.
    const floor = { inputTokens: 9, outputTokens: 2, modelCalls: 1, known: "partial" };
    expect(paid.record).toMatchObject({ ...failed, output: "I sh", usage: floor });
  });

  test.each([
    ["application/json", '{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}'],
    ["text/event-stream", '\n[{"error": {"message": "slow down", "code": 429, "status": "RESOURCE_EXHAUSTED"}}]'],
  ])(
    "U03: a body of JSON with an error and status 200 is that error, whatever it is said to be: %s",
    async (type, body) => {
      const headers = { "content-type": type, "retry-after": "7" };
      const { record } = await play({ status: 200, headers, body });
      expect(record).toMatchObject({ failure: { code: "rate_limited" }, usage: { modelCalls: 1, known: "reported" } });
      expect(Math.abs((record.failure?.retryAt ?? 0) - record.endedAt - 7000)).toBeLessThan(5000);
    },
  );

  test("a stream that breaks off is a crash with what was said, and its usage a floor", async () => {
    const { record } = await play(
      ({ number }) => (number === 1 ? { tool: { name: "add", args: '{"a":1}' } } : { text: "and th", then: "cut" }),
      { tools: "./tools.mjs" },
    );
    expect(record).toMatchObject({
      status: "crashed",
      output: "and th",
      failure: { code: "agent_crash" },
      usage: { outputTokens: 4, modelCalls: 2, known: "partial" },
    });
  });

  test("C47: a provider that falls silent is given up after chunkTimeoutMs", async () => {
    const { record } = await play({ text: "wait", then: "hang" }, { chunkTimeoutMs: 200 });
    expect(record).toMatchObject({ output: "wait", failure: { code: "idle_timeout" }, usage: { known: "unknown" } });
  });

  test("an agent that is silent for idleMs is killed, whatever it waits for", async () => {
    const request = storedRequest({ input: "hello", limits: { timeoutMs: 20_000, idleMs: 150 } });
    const { record } = await play({ then: "hang" }, {}, { request });
    expect(record).toMatchObject({ status: "timeout", crashed: true, failure: { code: "idle_timeout" } });
  });

  test("C41: a tool call that the token limit cut is not run", async () => {
    const { record } = await play(
      { tool: { name: "add", args: '{"a": 4' }, finish: "length" },
      { tools: "./tools.mjs" },
    );
    expect(record.steps.flatMap(({ toolCalls }) => toolCalls).filter(({ status }) => status === "ok")).toEqual([]);
    expect(record.environment).toMatchObject({ finishReason: "length" });
  });

  test("C41: nor is one that came out whole before the answer was cut; it is told in the transcript", async () => {
    const { record, server } = await play({ tool: { name: "add" }, finish: "length" }, { tools: "./tools.mjs" });
    expect([record.status, server.requests.length]).toEqual(["completed", 1]);
    const note = "[not run: the token limit cut the answer]";
    expect(record.steps[0]?.toolCalls).toMatchObject([{ status: "denied", result: note }]);
    expect(record.messages.at(-1)).toMatchObject({ role: "tool", content: note });
  });

  test("C41: arguments that are no JSON are told to the model, and the next turn's history is valid", async () => {
    const { record } = await play(
      ({ number }) => (number === 1 ? { tool: { name: "add", args: '{"a": 4' } } : { text: "sorry" }),
      { tools: "./tools.mjs" },
    );
    expect(record).toMatchObject({ status: "completed", output: "sorry" });
    const { server } = await play({ text: "hi" }, {}, { history: record.messages });
    expect(JSON.stringify(server.requests[0]?.body.messages)).toContain('"arguments":"{}"');
  });

  test("options that are none are refused before anything is paid", async () => {
    const request = storedRequest({ input: "hello", options: { temprature: 1 } });
    const { record, server } = await play({ text: "hi" }, {}, { request });
    expect(record.failure).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("temprature") as string,
    });
    expect(server.requests).toHaveLength(0);
  });

  test("the key is in no message", async () => {
    const { record } = await play({ status: 401, body: `{"error":{"message":"the key ${KEY} is wrong"}}` });
    expect(JSON.stringify(record)).not.toContain(KEY);
    expect(record.failure?.message).toContain("[masked]");
  });
});

describe("an agent that cannot run says why", () => {
  const base = { type: "chat", provider: "openai-compatible", model: "m", baseUrl: "http://127.0.0.1:9/v1" } as const;

  test("a key that is not there; a file of tools that is none", async () => {
    expect(chatAgent("a", { ...base, apiKeyEnv: "NOPE" }, { baseDir: TOOLS_FOLDER, env: {} }).lacking).toContain(
      "NOPE",
    );
    const spec = chatAgent("a", { ...base, tools: "./none.mjs" }, { baseDir: TOOLS_FOLDER, env: {} });
    await spec.prepare?.();
    expect(spec.problem).toContain("none.mjs");
  });

  test("tags for the provider's bills are sent where that is asked for", async () => {
    const request = storedRequest({ input: "hello", batch: { id: "b", sample: "s", epoch: 1 } });
    const { server } = await play({ text: "hi" }, { costLogTags: true }, { request });
    expect(server.requests[0]?.headers).toMatchObject({
      "x-turnq-turn": "t1",
      "x-turnq-attempt": "1",
      "x-turnq-agent": "gpt",
      "x-turnq-batch": "b",
    });
    const { server: plain } = await play({ text: "hi" }, {}, { request });
    expect(plain.requests[0]?.headers).not.toHaveProperty("x-turnq-turn");
  });
});
