import { defineAgent, openTurnq, type Message, type TurnEvent, type TurnRequest } from "turnq";

type Input = TurnRequest["input"];

// redis: a URL, options or an ioredis. It reads no environment, installs no signal handler, never calls process.exit.
const turnq = await openTurnq({ redis: process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379" });

const support = defineAgent("support", async ({ input, history, signal, emit }) => {
  const reply = await callModel(history, input, { signal });
  emit.usage(reply.usage);
  return reply.text;
});
const worker = turnq.worker({ agents: [support], concurrency: 20 }); // Agent classes and config entries too
await worker.start();
process.once("SIGTERM", () => void worker.close({ limitMs: 25_000 }).then(() => turnq.close()));

const turn = await turnq.submit({ agent: "support", input: "Refund?", session: "u42", id: "ticket-9001" });
console.log(turn.id, turn.duplicate ? "was there" : "is stored"); // stored before it answers; throws TurnqError {code} when not
for await (const event of turn.events()) render(event); // from the start, or { after: seq }
const result = await turn.result({ waitMs: 60_000 }); // ok: false is a value; WaitTimeoutError leaves the turn alone
console.log(result.ok ? result.output : result.error);
await turn.cancel({ reason: "user left" }); // also turnq.turn(id) in another process; what is settled stays as it is

await worker.close({ limitMs: 25_000 });
await turnq.close();

function render(event: TurnEvent): void {
  console.log(`${event.seq} ${event.type}`);
}

/** Stands for a call of a model. */
async function callModel(history: readonly Message[], input: Input, options: { signal: AbortSignal }) {
  options.signal.throwIfAborted();
  const words = JSON.stringify(input).split(" ").length;
  return Promise.resolve({
    text: `We look into it (message ${history.length + 1}).`,
    usage: { inputTokens: words, outputTokens: 6 },
  });
}
