import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LONG } from "../long.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../redis.ts";
import { histories, printed, type History } from "./history.ts";
import { World } from "./world.ts";

/** Histories of a run; the seed of a failure repeats it. */
const HISTORIES = Number(process.env["TURNQ_TEST_HISTORIES"] ?? (LONG ? 1000 : 60));
/** The test run plays the same ones each time, `npm run check` more of them; `npm run simulation` looks for new ones. */
const NEW_SEED = process.env["TURNQ_TEST_HISTORIES"] === undefined ? 11 : Math.floor(Math.random() * 2 ** 31);
const SEED = Number(process.env["TURNQ_TEST_SEED"] ?? NEW_SEED);

let redis: ThrowAwayRedis;
let world: World;
beforeAll(async () => {
  // Nothing of it is to last: the time is better spent on more histories.
  redis = await throwAwayRedis({ settings: { appendonly: "no", save: "" } });
  world = await World.open(redis.url);
});
afterAll(async () => {
  await world.close();
  await redis.stop();
});

async function replay(history: History): Promise<void> {
  const broken = await world.play(history);
  if (broken !== undefined) throw new Error(`${broken}\n${printed(history)}`);
}

/** A history that breaks a law, without what it does so without. fast-check's own shrinking plays ten times as many. */
async function shortened(history: History): Promise<History> {
  let short = history;
  for (let size = Math.ceil(history.length / 2); size > 0; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = 0; at < short.length;) {
      const without = short.toSpliced(at, size);
      if ((await world.play(without)) === undefined) at += size;
      else short = without;
    }
  }
  return short;
}

/** What histories showed once, and what was wrong. */
const SHOWN: readonly (readonly [string, History])[] = [
  [
    "a session's turn that backs off, and whose job was removed and stored anew by a second submit, comes when it is due",
    [
      ["submit", { session: 2, calls: 1, ends: ["crash", "ok"] }],
      ["fetch", 0],
      ["flow", 14],
      ["toolRemove", 0],
      ["again", 0],
    ],
  ],
  [
    "so does one whose worker was killed meanwhile: its attempt is found lost",
    [
      ["submit", { session: 2, calls: 1 }],
      ["fetch", 0],
      ["flow", 8],
      ["kill", 0],
      ["kill", 1],
      ["away", 20_000],
      ["toolRemove", 0],
      ["again", 0],
    ],
  ],
  [
    "an attempt keeps its lease while what earlier ones left is killed, however long that takes",
    [
      ["submit", { calls: 2, ends: ["fail", "ok"] }],
      ["fetch", 0],
      ["flow", 25],
      ["retry", 0],
      ["flow", 2],
      ["fetch", 0],
      ["flow", 4],
      ["cancel", 0],
      ["pass", 25_000],
    ],
  ],
  [
    "an attempt whose lease was over before its worker had the answer of its begin is not run: the next one is",
    [
      ["submit", { calls: 2 }],
      ["go", 0],
      ["fetch", 0],
      ["flow", 4],
      ["pass", 12_000],
      ["flow", 3],
      ["cancel", 0],
    ],
  ],
];

test.each(SHOWN)("%s", async (_what, history) => {
  expect(await world.play(history)).toBeUndefined();
});

test(`invariants 1, 3, 4, 6, 7, 8, 10 and 13 hold in ${HISTORIES} random histories (seed ${SEED})`, async () => {
  console.log(`seed ${SEED}: TURNQ_TEST_SEED=${SEED} TURNQ_TEST_HISTORIES=${HISTORIES} repeats these histories`);
  const outcome = await fc.check(fc.asyncProperty(histories, replay), {
    numRuns: HISTORIES,
    seed: SEED,
    endOnFailure: true,
  });
  if (outcome.failed) {
    const [failed] = outcome.counterexample ?? [[]];
    // A turn that never settles takes long to make shorter: who stops the run then has seen it fail.
    console.log(`history ${outcome.numRuns} broke a law, and is made shorter:\n${printed(failed)}`);
    const history = await shortened(failed);
    const broken = await world.play(history);
    expect.fail(
      [
        broken ?? "it held when it was played once more",
        `seed ${SEED}, history ${outcome.numRuns} of ${HISTORIES}`,
        printed(history),
        ...world.account,
      ].join("\n"),
    );
  }
});
