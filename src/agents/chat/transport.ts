import { Agent, fetch as undiciFetch } from "undici";

/** How long a connection may take, in ms. */
const CONNECT_MS = 15_000;

let dispatcher: Agent | undefined;

/**
 * `fetch` for model calls: no time limits of its own but for the connection, since a turn has its
 * deadline and undici's 300 s for headers and for silence would end slow answers whatever a turn's limits say.
 */
export const modelFetch: typeof fetch = (input, init) => {
  dispatcher ??= new Agent({ headersTimeout: 0, bodyTimeout: 0, connect: { timeout: CONNECT_MS }, pipelining: 0 });
  return undiciFetch(input as Parameters<typeof undiciFetch>[0], {
    ...(init as object),
    dispatcher,
  }) as unknown as Promise<Response>;
};
