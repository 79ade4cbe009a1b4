import { serve } from "@hono/node-server";
import { openBoard } from "./board.ts";

/** Shows the lanes of the store at REDIS_URL, on this machine only: `npx jiti examples/bull-board/server.ts`. */
const board = openBoard({ redisUrl: process.env["REDIS_URL"] ?? "redis://127.0.0.1:6379" });
const port = Number(process.env["PORT"] ?? 3002);
const server = serve({ fetch: board.app.fetch, hostname: "127.0.0.1", port }, (address) => {
  console.log(`http://127.0.0.1:${address.port}`);
});

for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    server.close();
    void board.close();
  });
}
