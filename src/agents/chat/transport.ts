import { Agent, fetch as undiciFetch } from "undici";

/** How long a connection may take, in ms. */
const CONNECT_MS = 15_000;

/**
 * How long an idle connection is kept for the next call, in ms. Shorter than any server keeps it:
 * a call on a connection that the server has just closed is lost, and nobody knows what it cost.
 */
const KEEP_MS = 1_000;

let dispatcher: Agent | undefined;

/**
 * `fetch` for model calls: no time limits of its own but for the connection, since a turn has its
 * deadline and undici's 300 s for headers and for silence would end slow answers whatever a turn's limits say.
 */
export const modelFetch: typeof fetch = (input, init) => {
  dispatcher ??= new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: { timeout: CONNECT_MS },
    keepAliveTimeout: KEEP_MS,
    keepAliveMaxTimeout: KEEP_MS,
  });
  return undiciFetch(input as Parameters<typeof undiciFetch>[0], {
    ...(init as object),
    dispatcher,
  }) as unknown as Promise<Response>;
};
