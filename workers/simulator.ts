import { createInterface } from "node:readline";
import { readAnswers } from "../src/simulator/answers.ts";
import { messageOf } from "../src/domain/error.ts";
import { SimulatorOrder } from "../src/simulator/order.ts";
import { startSimulator, type RunningSimulator } from "../src/simulator/simulator.ts";

// A simulator of a parent: one order a line on stdin, one answer a line on stdout. It ends with stdin.
let running: RunningSimulator | undefined;
const answers = new Map<string, string>();

function say(line: object): void {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  const order = SimulatorOrder.parse(JSON.parse(line));
  try {
    if (order.type === "answers") {
      for (const [input, answer] of await readAnswers(order.file)) answers.set(input, answer);
      say({ type: "answers", known: answers.size });
    } else {
      running ??= await startSimulator({ models: order.models, answers, port: 0 });
      say({ type: "started", url: running.url });
    }
  } catch (error) {
    say({ type: "error", message: messageOf(error) });
  }
}
await running?.close();
