import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { SCRIPT_NAMES } from "../../../src/ledger/scripts.ts";
import { DOORS, type Door, type Point } from "../../../src/pause/effect.ts";
import { LONG } from "../../long.ts";
import { throwAwayRedis, type ThrowAwayRedis } from "../../redis.ts";
import { Scene } from "../queue/scene.ts";
import { listed } from "./listed.ts";
import { play, type Theatre } from "./run-scenario.ts";
import { SCENARIOS, type Scenario } from "./scenarios.ts";
import { bundleVictim, Gang } from "./victims.ts";

/** Victims that share a process, and processes at once. */
const IN_GANG = 5;
const AT_ONCE = 2;

/** These scripts run inside of a MULTI only: its door is theirs. */
const IN_MULTI: readonly string[] = ["submit", "retry", "clear"];

const POINTS: readonly Point[] = [
  ...DOORS,
  ...SCRIPT_NAMES.filter((name) => !IN_MULTI.includes(name)).map((name): Door => `script:${name}`),
].flatMap((door): Point[] => [`before:${door}`, `after:${door}`]);

/**
 * Doors whose death is tried in every scenario that comes to them, in the long form the second time too: what decides a
 * turn. A death before BullMQ is told leaves what one after these leaves.
 */
const DECISIVE = /:(script:(begin|close|settle|cancel|late)|multi:\w+)$/;
const TIMES = LONG ? 2 : 1;

let server: ThrowAwayRedis;
let theatre: Theatre;
beforeAll(async () => {
  server = await throwAwayRedis({ appendfsync: "no" });
  const folder = await mkdtemp(join(tmpdir(), "turnq-test-crash-"));
  const [scene, program] = await Promise.all([Scene.open(server.url), bundleVictim(folder)]);
  theatre = { scene, folder, program };
});
afterAll(async () => {
  await theatre.scene.close();
  await server.stop();
  await rm(theatre.folder, { recursive: true, force: true });
});

/** Does this work for victims that share processes. */
async function inGangs<T>(work: readonly ((gang: Gang) => Promise<T>)[]): Promise<T[]> {
  const answers: T[] = [];
  const gangs = Array.from({ length: Math.ceil(work.length / IN_GANG) }, (_, i) => i * IN_GANG).values();
  const one = async (): Promise<void> => {
    for (const from of gangs) {
      const members = work.slice(from, from + IN_GANG);
      const gang = new Gang(theatre.program, theatre.scene.url, members.length);
      answers.push(...(await Promise.all(members.map((member) => member(gang)))));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return answers;
}

/** How often each scenario comes to each point when nobody dies. */
const reached = new Map<Scenario, ReadonlyMap<string, number>>();

test("every point of the code is reached by a scenario, and without a death all holds", async () => {
  const wrong = await inGangs(
    SCENARIOS.map((scenario, i) => async (gang: Gang) => {
      const notes = join(theatre.folder, `notes-${i}`);
      const { problems } = await play(theatre, scenario, { notes }, gang);
      const counts = new Map<string, number>();
      for (const point of (await readFile(notes, "utf8")).split("\n")) counts.set(point, (counts.get(point) ?? 0) + 1);
      reached.set(scenario, counts);
      return problems.map((problem) => `${scenario.name}: ${problem}`);
    }),
  );
  expect(wrong.flat()).toEqual([]);
  const missing = POINTS.filter((point) => SCENARIOS.every((scenario) => timesOf(scenario, point) === 0));
  expect(missing, "no scenario reaches these points").toEqual([]);
}, 600_000);

function timesOf(scenario: Scenario, point: Point): number {
  return reached.get(scenario)?.get(point) ?? 0;
}

/** A death that is to be tried, in the first of these scenarios that comes to it. */
interface Death {
  readonly point: Point;
  readonly time: number;
  readonly scenarios: readonly Scenario[];
}

/** Each point in one scenario, the decisive ones in all of them. */
function deaths(): Death[] {
  return POINTS.flatMap((point): Death[] => {
    const scenarios = SCENARIOS.filter((scenario) => timesOf(scenario, point) > 0);
    if (DECISIVE.test(point))
      return scenarios.flatMap((scenario) =>
        Array.from({ length: Math.min(TIMES, timesOf(scenario, point)) }, (_, i) => ({
          point,
          time: i + 1,
          scenarios: [scenario],
        })),
      );
    // What a worker does by the clock is almost certain where it does it most.
    const often = scenarios.toSorted((one, other) => timesOf(other, point) - timesOf(one, point));
    return [{ point, time: 1, scenarios: often }];
  });
}

/** What became of a death that was tried. */
interface Died {
  readonly point: Point;
  /** False when no process came to it: what a worker does by the clock may be left out the next time. */
  readonly died: boolean;
  readonly problems: readonly string[];
}

async function die({ point, time, scenarios }: Death, gang: Gang): Promise<Died> {
  for (const [i, scenario] of [...scenarios, ...scenarios].entries()) {
    const { died, problems } = await play(theatre, scenario, { at: { point, time } }, i === 0 ? gang : undefined);
    if (died || problems.length > 0)
      return { point, died, problems: problems.map((problem) => `${scenario.name}, ${point} (${time}): ${problem}`) };
  }
  return { point, died: false, problems: [] };
}

test("invariants 1 to 11: a process is killed at every point, and another worker takes over", async () => {
  const all = deaths();
  expect(new Set(all.map(({ point }) => point)).size).toBe(POINTS.length);
  console.log(
    listed(
      "points of death",
      all.map(({ point }) => point),
    ),
  );
  const tried = await inGangs(all.map((death) => (gang) => die(death, gang)));
  expect(tried.flatMap(({ problems }) => problems)).toEqual([]);
  const met = new Set(tried.filter(({ died }) => died).map(({ point }) => point));
  expect(
    POINTS.filter((point) => !met.has(point)),
    "nobody died at these points",
  ).toEqual([]);
}, 600_000);
