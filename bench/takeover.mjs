import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { defineAgent, openTurnq } from "../dist/src/index.js";
import { quantile, until } from "./figures.mjs";

const HOLD = fileURLToPath(new URL("./hold.mjs", import.meta.url));
/** How many workers are killed at once. */
const AT_ONCE = 10;

/** From the SIGKILL of a worker to the start of its turn's next attempt in another, with the default settings. */
export async function takeovers({ server, kills, say }) {
  await server.clear();
  const waits = [];
  for (let left = kills; left > 0; left -= AT_ONCE) waits.push(...(await round(server, Math.min(left, AT_ONCE))));
  const row = {
    name: `takeover after kill -9, n ${waits.length}`,
    unit: "ms",
    turnq: quantile(waits, 0.99),
    detail: { p50: quantile(waits, 0.5), p99: quantile(waits, 0.99), max: Math.max(...waits) },
  };
  say(row);
  return [row];
}

async function round(server, count) {
  await server.clear();
  const producer = await openTurnq({ redis: server.url, agents: [defineAgent("hold", () => "never")] });
  const workers = [];
  const turns = [];
  for (let i = 0; i < count; i++) {
    const child = spawn(process.execPath, [HOLD, server.url, "1"], { stdio: ["pipe", "pipe", "inherit"] });
    await once(child.stdout, "data");
    workers.push(child);
    const turn = await producer.submit({ agent: "hold", input: "x" });
    await until(async () => (await turn.row()).state === "running", 10);
    turns.push(turn);
  }
  const owner = new Map();
  for (const turn of turns) owner.set(turn, (await turn.row()).worker);
  // The one that takes over was there all the time; all others are at their limit of one.
  const started = new Map();
  const rescue = defineAgent("hold", ({ turn }) => {
    started.set(turn, performance.now());
    return "rescued";
  });
  const rescuing = await openTurnq({ redis: server.url, agents: [rescue] });
  const worker = rescuing.worker({ concurrency: count });
  await worker.start();
  const killed = new Map();
  for (const [i, child] of workers.entries()) {
    killed.set(turns[i].id, performance.now());
    child.kill("SIGKILL");
    // Spread over a lease's time: when it was renewed last matters.
    await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 300));
  }
  await until(() => started.size === count, 10);
  await worker.close();
  await Promise.all([producer.close(), rescuing.close()]);
  return turns.map(({ id }) => started.get(id) - killed.get(id));
}
