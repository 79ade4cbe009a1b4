import { Agent, Response as UndiciResponse, fetch as undiciFetch } from "undici";
import { HeardAnswer } from "./heard-answer.ts";

/** How long a connection may take, in ms. */
const CONNECT_MS = 15_000;

/**
 * How long an idle connection is kept for the next call, in ms. Shorter than any server keeps it:
 * a call on a connection that the server has just closed is lost, and nobody knows what it cost.
 */
const KEEP_MS = 1_000;

let dispatcher: Agent | undefined;

/** The answer to the call that a signal belongs to, once it has begun. */
const answers = new WeakMap<AbortSignal, HeardAnswer>();

/** What was heard of the answer to the last call that was made with this signal; undefined before its headers are there. */
export function heardAnswer(signal: AbortSignal): HeardAnswer | undefined {
  return answers.get(signal);
}

/** Another call is to be made with this signal. */
export function forgetAnswer(signal: AbortSignal): void {
  answers.delete(signal);
}

/**
 * `fetch` for model calls: no time limits of its own but for the connection, since a turn has its
 * deadline and undici's 300 s for headers and for silence would end slow answers whatever a turn's limits say.
 */
export const modelFetch: typeof fetch = async (input, init) => {
  dispatcher ??= new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: CONNECT_MS },
    keepAliveTimeout: KEEP_MS,
    keepAliveMaxTimeout: KEEP_MS,
  });
  const signal = init?.signal ?? undefined;
  const response = await undiciFetch(input as Parameters<typeof undiciFetch>[0], { ...(init as object), dispatcher });
  if (!response.ok || response.body === null || signal === undefined) return response as unknown as Response;
  const { status, statusText, headers } = response;
  const heard = new HeardAnswer(Object.fromEntries(headers));
  answers.set(signal, heard);
  const body = listened(response.body as ReadableStream<Uint8Array>, heard);
  return new UndiciResponse(body, { status, statusText, headers }) as unknown as Response;
};

/** The body, each piece of which is heard as it is read. It holds 4 KB for each answer that runs, and half a µs for each piece. */
function listened(body: ReadableStream<Uint8Array>, heard: HeardAnswer): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>(
    {
      pull: async (controller) => {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        heard.take(value);
        controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
