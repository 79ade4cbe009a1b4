// A worker that holds each turn until it is killed, or its input ends: argv 2 is the URL of Redis, 3 the concurrency.
import { defineAgent, openTurnq } from "../dist/src/index.js";

const hold = defineAgent("hold", () => new Promise(() => undefined));
const turnq = await openTurnq({ redis: process.argv[2], agents: [hold] });
await turnq.worker({ concurrency: Number(process.argv[3]) }).start();
process.stdin.on("end", () => process.exit()).resume();
process.stdout.write("ready\n");
