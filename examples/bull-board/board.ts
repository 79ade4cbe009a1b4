import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { HonoAdapter } from "@bull-board/hono";
import { serveStatic } from "@hono/node-server/serve-static";
import { Queue } from "bullmq";
import { Hono, type MiddlewareHandler } from "hono";
import { Redis } from "ioredis";
import { shownData, shownReturnValue } from "./formatters.ts";

export interface BoardOptions {
  readonly redisUrl: string;
  /** Where the board is mounted: "/" unless given, else "/path" without a slash at its end. */
  readonly basePath?: string;
}

export interface Board {
  readonly app: Hono;
  close(): Promise<void>;
}

/** How often the list of lanes may be read anew, in ms. */
const REFRESH_MS = 1000;

/** bull-board over every lane of a turnq store. It can look, and nothing else. */
export function openBoard({ redisUrl, basePath = "/" }: BoardOptions): Board {
  // A board that cannot reach Redis should say so at once, and be well again when Redis is.
  const redis = new Redis(redisUrl, { maxRetriesPerRequest: 1, retryStrategy: (times) => Math.min(times * 50, 500) });
  redis.on("error", () => undefined);
  const adapter = new HonoAdapter(serveStatic).setBasePath(basePath);
  const board = createBullBoard({ queues: [], serverAdapter: adapter, options: { uiConfig: { boardTitle: "turnq" } } });
  const queues = new Map<string, Queue>();
  let refreshedAt = -REFRESH_MS;

  const refresh = async (): Promise<void> => {
    if (performance.now() - refreshedAt < REFRESH_MS) return;
    refreshedAt = performance.now();
    for (const lane of (await redis.smembers("turnq:lanes")).toSorted()) {
      if (queues.has(lane)) continue;
      // Without skipMetasUpdate a queue that is opened only to look would set the queue's options anew.
      const queue = new Queue(lane, { connection: redis, prefix: `{turnq:${lane}}`, skipMetasUpdate: true });
      queue.on("error", () => undefined);
      queues.set(lane, queue);
      const shown = new BullMQAdapter(queue, { readOnlyMode: true });
      shown.setFormatter("data", shownData);
      shown.setFormatter("returnValue", shownReturnValue);
      board.addQueue(shown);
    }
  };

  const app = new Hono({ strict: false });
  app.use(onlyLoopbackNames, onlyReading, async (_context, next) => {
    await refresh();
    await next();
  });
  app.onError((error, context) => context.text(`The board cannot read the store: ${error.message}\n`, 503));
  app.route(basePath, adapter.registerPlugin());
  return {
    app,
    close: async () => {
      await Promise.all([...queues.values()].map((queue) => queue.close()));
      redis.disconnect();
    },
  };
}

const LOOPBACK = /^(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/;

/** Keeps out web pages that reach this server by a name of their own (DNS rebinding). */
const onlyLoopbackNames: MiddlewareHandler = async (context, next) => {
  if (LOOPBACK.test(context.req.header("host") ?? "")) return await next();
  return context.text("This board is for this machine only.\n", 403);
};

/** bull-board's read-only mode hides its buttons; this makes sure of it. */
const onlyReading: MiddlewareHandler = async (context, next) => {
  if (context.req.method === "GET" || context.req.method === "HEAD") return await next();
  return context.text("This board is read-only.\n", 405);
};
