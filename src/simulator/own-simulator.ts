import { spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";
import { TurnqError } from "../domain/error.ts";
import { entryPath } from "../process/entry.ts";
import type { ModelSettings } from "./model-settings.ts";
import { SimulatorSays, type SimulatorOrder } from "./order.ts";
import type { Served } from "./served.ts";

/** A simulator in a process of its own, which dies with this one. */
export interface OwnSimulator {
  /** Where it listens, without `/v1`. */
  readonly url: string;
  /** Gives it more right answers: a JSONL file of `{"input", "answer"}`. */
  readonly learn: (file: string) => Promise<void>;
  /** What it has served. */
  readonly served: () => Promise<Served>;
  readonly close: () => Promise<void>;
}

/** Starts it. Throws `internal` when it does not start. */
export async function startOwnSimulator(models: Readonly<Record<string, ModelSettings>>): Promise<OwnSimulator> {
  const child = spawn(process.execPath, [entryPath("simulator")], {
    stdio: ["pipe", "pipe", "inherit"],
    env: {},
    detached: true,
  });
  const ask = asker(child);
  const started = await ask({ type: "start", models: models as Extract<SimulatorOrder, { type: "start" }>["models"] });
  if (started.type !== "started") throw new TurnqError("internal", "the simulator did not start");
  const { url } = started;
  return {
    url,
    learn: async (file) => {
      await ask({ type: "answers", file });
    },
    served: async () => (await (await fetch(`${url}/served`)).json()) as Served,
    close: async () => {
      const gone = new Promise<void>((resolve) => child.once("exit", () => resolve()));
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.stdin?.end();
      const kill = setTimeout(() => child.kill("SIGKILL"), CLOSE_WITHIN_MS);
      await gone;
      clearTimeout(kill);
    },
  };
}

/** How long it may take to end by itself, in ms. */
const CLOSE_WITHIN_MS = 2000;

/** Sends an order and gives the answer: one after the other, in order. */
function asker(child: ChildProcess): (order: SimulatorOrder) => Promise<SimulatorSays> {
  const waiting: { resolve: (says: SimulatorSays) => void; reject: (error: Error) => void }[] = [];
  const gone = (): void => {
    for (const { reject } of waiting.splice(0)) reject(new TurnqError("internal", "the simulator ended"));
  };
  child.once("error", gone);
  child.once("exit", gone);
  child.stdin?.on("error", gone);
  if (child.stdout !== null) {
    createInterface({ input: child.stdout }).on("line", (line) => {
      const says = SimulatorSays.parse(JSON.parse(line));
      const asked = waiting.shift();
      if (says.type === "error") asked?.reject(new TurnqError("internal", `the simulator says: ${says.message}`));
      else asked?.resolve(says);
    });
  }
  return (order) =>
    new Promise((resolve, reject) => {
      waiting.push({ resolve, reject });
      child.stdin?.write(`${JSON.stringify(order)}\n`);
    });
}
