import { test } from "vitest";
import { createServer } from "node:http";
import { getEventListeners } from "node:events";
import { runAttempt } from "../../src/agent/attempt.ts";
import { chatAgent } from "../../src/agents/chat/chat-agent.ts";
import { startOptions, storedRequest } from "../agents.ts";
import { ModelServer, type ModelReply, type ModelRequest } from "../model-server.ts";
import { writeFileSync } from "node:fs";

writeFileSync("/tmp/h4/tools.mjs", `import { getEventListeners } from "node:events";
export const tools = { add: { description: "adds", parameters: { type: "object" }, execute: (_a, { signal }) => getEventListeners(signal, "abort").length },
 odd: { description: "x", parameters: {type:"object"}, execute: () => "a\\ud83d" } };`);
async function play(reply: (r: ModelRequest) => ModelReply, config: object = {}, req: object = {}) {
  const server = await ModelServer.start(reply);
  const spec = chatAgent("gpt", { type: "chat", provider: "openai-compatible", baseUrl: server.baseUrl, model: "m", tools: "./tools.mjs", ...config } as never, { baseDir: "/tmp/h4", env: { KEY: "kkkkkkkk" } });
  await spec.prepare?.();
  const events: any[] = [];
  const out = await runAttempt({ spec, request: storedRequest({ input: "hello", limits: { timeoutMs: 20000, graceMs: 200 }, ...req } as never), attempt: 1, iteration: 1, generation: 1, history: [], before: { steps: 0, toolCalls: 0, tokens: 0, costUsd: 0 }, mark: "", start: startOptions(), onEvent: (e) => { events.push(e); return e.type === "call_start" ? Promise.resolve(true) : undefined; } }).done;
  await server.close();
  return { ...out, events, server };
}
test("warnings", async () => { const { record } = await play(() => ({ text: "hi" }), { options: { topK: 3 } }); console.log("W", record.status, record.failure); });
test("listeners", async () => { const { record } = await play(({ number }) => number < 60 ? { tool: { name: "add" } } : { text: "x" }); console.log("L", record.status, record.steps.flatMap((s) => s.toolCalls.map((t) => t.result)).join(",")); });
test("order", async () => { const { events } = await play(({ number }) => number < 3 ? { tool: { name: "add" } } : { text: "x" }); console.log("O", events.map((e) => e.type).join(" ")); });
test("ssrf", async () => {
  const hits: string[] = []; const s = createServer((q, r) => { hits.push(String(q.url)); r.end("x"); }).listen(0); await new Promise((r) => s.once("listening", r));
  const { record, server } = await play(() => ({ text: "hi" }), {}, { input: [{ type: "text", text: "a" }, { type: "image_url", image_url: { url: `http://127.0.0.1:${(s.address() as any).port}/meta.png` } }] });
  console.log("S", record.status, record.failure, hits, JSON.stringify(server.requests[0]?.body.messages)); s.close();
});
test("file url", async () => { const { record } = await play(() => ({ text: "hi" }), {}, { input: [{ type: "file", data: "https://x.invalid/a.zip", mediaType: "application/zip" }] }); console.log("F", record.status, record.failure); });
test("length valid call", async () => { const { record } = await play(() => ({ tool: { name: "add" }, finish: "length" })); console.log("T", record.status, JSON.stringify(record.steps.map((s) => [s.success, s.toolCalls])), JSON.stringify(record.messages)); });
test("length cut call", async () => { const { record, server } = await play(() => ({ tool: { name: "add", args: '{"a": 4' }, finish: "length" })); console.log("T2", server.requests.length, record.status, JSON.stringify(record.messages)); });
test("bad args", async () => { const { record, server } = await play(({ number }) => number === 1 ? ({ tool: { name: "add", args: '{"a": 4' } }) : { text: "x" }); console.log("T3", record.status, JSON.stringify(record.messages), JSON.stringify(server.requests[1]?.body.messages)); });
test("odd result", async () => { const { server } = await play(({ number }) => number === 1 ? { tool: { name: "odd" } } : { text: "x" }); console.log("R", JSON.stringify(server.requests[1]?.body.messages)); });
test("reset", async () => {
  const s = createServer((q) => { q.socket.destroy(); }).listen(0); await new Promise((r) => s.once("listening", r));
  const { record } = await play(() => ({ text: "hi" }), { baseUrl: `http://127.0.0.1:${(s.address() as any).port}/v1` }); console.log("X", record.status, record.failure, record.usage); s.close();
});
test("nothing", async () => {
  const s = createServer((q, r) => { r.writeHead(200, { "content-type": "text/event-stream" }); r.end(); }).listen(0); await new Promise((r) => s.once("listening", r));
  const { record } = await play(() => ({ text: "hi" }), { baseUrl: `http://127.0.0.1:${(s.address() as any).port}/v1`, reportsTokens: false }); console.log("N", record.status, record.failure, record.usage); s.close();
});
test("html", async () => {
  const s = createServer((q, r) => { r.writeHead(200, { "content-type": "text/html" }); r.end("<html>login</html>"); }).listen(0); await new Promise((r) => s.once("listening", r));
  const { record } = await play(() => ({ text: "hi" }), { baseUrl: `http://127.0.0.1:${(s.address() as any).port}/v1`, reportsTokens: false }); console.log("H", record.status, record.failure, record.usage); s.close();
});
test("garbled", async () => {
  const s = createServer((q, r) => { r.writeHead(200, { "content-type": "text/event-stream" }); r.end("data: {\"nope\n\ndata: [DONE]\n\n"); }).listen(0); await new Promise((r) => s.once("listening", r));
  const { record } = await play(() => ({ text: "hi" }), { baseUrl: `http://127.0.0.1:${(s.address() as any).port}/v1`, reportsTokens: false }); console.log("G", record.status, record.failure, record.usage); s.close();
});
