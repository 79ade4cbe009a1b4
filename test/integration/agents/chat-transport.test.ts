import { createServer } from "node:http";
import { once } from "node:events";
import { expect, onTestFinished, test, vi } from "vitest";
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from "undici";
import { storedRequest } from "../../agents.ts";
import { play } from "./chat-scene.ts";

const image = (url: string) => [
  { type: "text" as const, text: "what is it?" },
  { type: "image_url", image_url: { url } },
];

test("C39: the HTTP client's own limits on silence do not end an answer", async () => {
  const before = getGlobalDispatcher();
  setGlobalDispatcher(new Agent({ headersTimeout: 1, bodyTimeout: 1 }));
  onTestFinished(() => setGlobalDispatcher(before));
  let answer = (): void => undefined;
  const server = createServer((request, response) => {
    request.resume();
    // The client looks once a second; two of its looks are waited for, in which nothing is sent.
    answer = () =>
      response.end('data: {"choices":[{"index":0,"delta":{"content":"late"},"finish_reason":"stop"}]}\n\n');
    setTimeout(() => response.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders(), 1200);
    setTimeout(answer, 2400);
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const address = server.address();
  const port = typeof address === "object" ? address?.port : 0;
  const { record } = await play({ text: "no" }, { baseUrl: `http://127.0.0.1:${port}/v1`, reportsTokens: false });
  expect(record).toMatchObject({ status: "completed", output: "late" });
});

test("C56: calls leave no listener on the turn's signal", async () => {
  const calls = 40;
  const { record } = await play(
    ({ number }) => (number <= calls ? { tool: { name: "listeners" } } : { text: "done" }),
    { tools: "./tools.mjs" },
    { onEvent: (event) => (event.type === "call_start" ? Promise.resolve(true) : undefined) },
  );
  const counts = record.steps.flatMap(({ toolCalls }) => toolCalls.map(({ result }) => Number(result)));
  expect(counts).toHaveLength(calls);
  expect(counts.at(-1)).toBe(counts[0]);
});

test("C60: the same input again is another call", async () => {
  const answers: string[] = [];
  for (const text of ["one", "two"]) answers.push((await play({ text })).record.output);
  expect(answers).toEqual(["one", "two"]);
});

test("a URL in the input is the provider's to fetch, never the worker's", async () => {
  const asked: string[] = [];
  const inside = createServer((request, response) => {
    asked.push(request.url ?? "");
    response.end("secret");
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void inside.close());
  await once(inside, "listening");
  const address = inside.address();
  const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}/meta.png`;
  const { record, server } = await play({ text: "a cat" }, {}, { request: storedRequest({ input: image(url) }) });
  expect(record.status).toBe("completed");
  expect(JSON.stringify(server.requests[0]?.body.messages)).toContain(url);
  expect(asked).toEqual([]);
});

test("a part that this provider cannot be sent is refused before it costs anything", async () => {
  const input = [{ type: "file", data: "QQ==", mediaType: "application/zip" }];
  const { record, server } = await play({ text: "hi" }, {}, { request: storedRequest({ input }) });
  expect(record).toMatchObject({ failure: { code: "invalid_request" }, usage: { known: "reported" } });
  expect(server.requests).toEqual([]);
});

test("C42: half a character in a tool's result, in an answer split inside one, or in the system prompt goes nowhere", async () => {
  const { record, server } = await play(
    ({ number }) => (number === 1 ? { tool: { name: "half" } } : { texts: ["\ud83d", "\ude00!"] }),
    { tools: "./tools.mjs", system: "be\ud83d" },
  );
  expect(record.output).toBe("\u{1f600}!");
  const sent = JSON.stringify(server.requests[1]?.body.messages);
  expect(sent).toContain("a\ufffd");
  expect(sent).toContain("be\ufffd");
  expect(sent).not.toContain("\\ud83d");
});

test("what the SDK would write to the console is in the record, since stdout is not ours", async () => {
  const said: unknown[] = [];
  for (const way of ["info", "warn", "error", "log"] as const)
    vi.spyOn(console, way).mockImplementation((...words: unknown[]) => void said.push(words));
  onTestFinished(() => void vi.restoreAllMocks());
  const { record } = await play({ text: "hi" }, { options: { topK: 3 } });
  expect(said).toEqual([]);
  expect(record.environment).toMatchObject({ warnings: [expect.stringContaining("topK is not supported")] });
});

test("another model than the config's has no price: its cost is unknown, and cannot be limited", async () => {
  const price = { inputPerMTok: 1, outputPerMTok: 1 };
  const options = { model: "dear" };
  const { record } = await play({ text: "hi" }, { price }, { request: storedRequest({ options }) });
  expect(record).toMatchObject({ status: "completed", model: "dear", usage: { outputTokens: 4 } });
  expect(record.usage).not.toHaveProperty("costUsd");
  const limited = storedRequest({ options, limits: { maxCostUsd: 1 } });
  const { record: refused, server } = await play({ text: "hi" }, { price }, { request: limited });
  expect(refused.failure).toMatchObject({
    code: "invalid_request",
    message: expect.stringContaining("dear") as string,
  });
  expect(server.requests).toEqual([]);
});

test("a wait for the store is neither the provider's silence nor the agent's", async () => {
  let stored = (_may: boolean): void => undefined;
  const request = storedRequest({ input: "hello", limits: { timeoutMs: 20_000, idleMs: 150 } });
  const { record } = await play(
    { text: "hi" },
    { chunkTimeoutMs: 100 },
    {
      request,
      onEvent: (event) => {
        if (event.type !== "call_start") return undefined;
        setTimeout(() => stored(true), 600);
        return new Promise<boolean>((resolve) => (stored = resolve));
      },
    },
  );
  expect(record).toMatchObject({ status: "completed", output: "hi" });
});
