import { openTurnq } from "../dist/src/index.js";
import { quantile } from "./figures.mjs";

/** From the hard deadline of a program that forked into other sessions to its Result, when nothing of it is alive. */
export async function deadlines({ server, quick, say }) {
  await server.clear();
  const timeoutMs = 500;
  const stubborn = {
    type: "command",
    name: "stubborn",
    output: "text",
    input: "json",
    command: ["bash", "-c", "trap '' TERM INT; setsid sleep 600 & sleep 600 & wait; sleep 600"],
    env: ["PATH"],
    limits: { timeoutMs, graceMs: 0 },
    retry: { maxAttempts: 1 },
  };
  const turnq = await openTurnq({ redis: server.url, agents: [stubborn], env: { PATH: process.env.PATH } });
  const worker = turnq.worker({ concurrency: 1 });
  await worker.start();
  const waits = [];
  for (let i = 0; i < (quick ? 3 : 20); i++) {
    const turn = await turnq.submit({ agent: "stubborn", input: "x" });
    const { attempts } = await turn.result();
    waits.push(attempts[0].endedAt - attempts[0].startedAt - timeoutMs);
  }
  await worker.close();
  await turnq.close();
  const row = {
    name: `deadline to the end of all processes, n ${waits.length}`,
    unit: "ms",
    turnq: quantile(waits, 0.99),
    detail: { p50: quantile(waits, 0.5), max: Math.max(...waits) },
  };
  say(row);
  return [row];
}
