import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SCRIPT_NAMES } from "../../../src/ledger/scripts.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { labelOf } from "../../redis-proxy.ts";
import { Scene } from "../queue/scene.ts";
import { listed } from "./listed.ts";
import { playThroughProxy } from "./play-through-proxy.ts";
import { Places } from "./places.ts";
import { SCENARIOS, type Scenario } from "./scenarios.ts";

/** Runs at once, all in this process. */
const AT_ONCE = 12;

/** BullMQ's scripts that our workers and producers send. */
const OF_BULLMQ = [
  "addDelayedJob",
  "addStandardJob",
  "extendLocks",
  "moveJobFromActiveToWait",
  "moveStalledJobsToWait",
  "moveToActive",
  "moveToDelayed",
  "moveToFinished",
  "removeJob",
  "updateProgress",
];

/** Calls whose reply is cut in every scenario that makes them: what decides a turn. */
const DECISIVE =
  /^(turnq_(begin|append|close|settle|cancel|late)|bull_(moveToActive|moveToFinished|moveToDelayed|moveJobFromActiveToWait)|exec)$/;

/** What opens a connection, or listens on one: there is no call whose reply is lost. */
const NO_CALL = new Set(["hello", "client", "auth", "select", "info", "subscribe"]);

let server: ThrowAwayRedis;
let folder: string;
let scene: Scene;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  folder = await mkdtemp(join(tmpdir(), "turnq-test-cut-"));
  scene = await Scene.open(server.url);
});
afterAll(async () => {
  await scene.close();
  await server.stop();
  await rm(folder, { recursive: true, force: true });
});

/** How often each scenario makes each call. */
const made = new Map<Scenario, ReadonlyMap<string, number>>();

const timesOf = (scenario: Scenario, label: string): number => made.get(scenario)?.get(label) ?? 0;

test("the scenarios make every call that the life of a turn is made of", async () => {
  const runs = new Places(AT_ONCE);
  const wrong = await Promise.all(
    SCENARIOS.map((scenario) =>
      runs.hold(async () => {
        const counts = new Map<string, number>();
        const { problems } = await playThroughProxy({ scene, folder, port: server.port }, scenario, (proxy) => {
          proxy.onCommand((command) => counts.set(labelOf(command), (counts.get(labelOf(command)) ?? 0) + 1));
          return undefined;
        });
        made.set(scenario, counts);
        return problems.map((problem) => `${scenario.name}: ${problem}`);
      }),
    ),
  );
  expect(wrong.flat()).toEqual([]);
  const due = [...SCRIPT_NAMES.map((name) => `turnq_${name}`), ...OF_BULLMQ.map((name) => `bull_${name}`)];
  const missing = due.filter((label) => SCENARIOS.every((scenario) => timesOf(scenario, label) === 0));
  expect(missing, "no scenario makes these calls").toEqual([]);
  const known = new Set(due);
  const scripts = [...made.values()]
    .flatMap((counts) => [...counts.keys()])
    .filter((label) => label.startsWith("bull_"));
  // A read needs no place in the list above.
  expect(scripts.filter((label) => !known.has(label) && !/^bull_(get|is)/.test(label))).toEqual([]);
});

/** A cut that is to be tried, in the first of these scenarios in which it comes to pass. */
interface Cut {
  readonly label: string;
  readonly scenarios: readonly Scenario[];
}

function cuts(): Cut[] {
  const labels = new Set([...made.values()].flatMap((counts) => [...counts.keys()]));
  return [...labels]
    .filter((label) => !NO_CALL.has(label))
    .flatMap((label): Cut[] => {
      const scenarios = SCENARIOS.filter((scenario) => timesOf(scenario, label) > 0);
      if (DECISIVE.test(label)) return scenarios.map((scenario) => ({ label, scenarios: [scenario] }));
      return [{ label, scenarios: scenarios.toSorted((one, other) => timesOf(other, label) - timesOf(one, label)) }];
    });
}

/** What became of a cut that was tried. */
interface Tried {
  readonly label: string;
  /** False when the call was not made: what a worker does by the clock may be left out the next time. */
  readonly cut: boolean;
  readonly problems: readonly string[];
}

async function cutOnce({ label, scenarios }: Cut): Promise<Tried> {
  for (const scenario of [...scenarios, ...scenarios]) {
    const { cut, problems } = await playThroughProxy({ scene, folder, port: server.port }, scenario, (proxy) =>
      proxy.cutReply((command) => labelOf(command) === label),
    );
    if (cut || problems.length > 0)
      return { label, cut, problems: problems.map((problem) => `${scenario.name}, ${label}: ${problem}`) };
  }
  return { label, cut: false, problems: [] };
}

test("invariants 1 to 11 and 13: each call's reply is lost once after it was executed", async () => {
  const runs = new Places(AT_ONCE);
  const all = cuts();
  console.log(
    listed(
      "calls whose reply is cut",
      all.map(({ label }) => label),
    ),
  );
  const tried = await Promise.all(all.map((cut) => runs.hold(() => cutOnce(cut))));
  expect(tried.flatMap(({ problems }) => problems)).toEqual([]);
  const met = new Set(tried.filter(({ cut }) => cut).map(({ label }) => label));
  expect(
    all.filter(({ label }) => !met.has(label)),
    "no reply of these was cut",
  ).toEqual([]);
}, 600_000);
