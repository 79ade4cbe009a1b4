import { setTimeout as sleep } from "node:timers/promises";
import { messageOf } from "../../../src/domain/error.ts";
import type { Point } from "../../../src/pause/effect.ts";
import { Party } from "../../fixtures/crash/party.ts";
import type { Scene } from "../queue/scene.ts";
import { broken, resultsOf } from "./invariants.ts";
import { turnsOf, type Scenario } from "./scenarios.ts";
import { Over, stageOf, type Stage } from "./stage.ts";
import { Gang, type Victim } from "./victims.ts";

/** How long a run may take until its turns have ended, in ms: far above what any needs. */
const PATIENCE_MS = 60_000;

/** What is the same for all runs of a test. */
export interface Theatre {
  readonly scene: Scene;
  readonly folder: string;
  /** The victims' program. */
  readonly program: string;
}

/** What became of a run. */
export interface Played {
  /** False when the process ended by itself. */
  readonly died: boolean;
  /** What does not hold, in words. */
  readonly problems: readonly string[];
}

let runs = 0;

/**
 * Plays a scenario in a lane of its own with a process that dies at a point, lets another worker
 * take over, and answers what does not hold then. Without a point nobody dies. The process is the gang's.
 */
export async function play(
  theatre: Theatre,
  scenario: Scenario,
  more: { readonly at?: { readonly point: Point; readonly time: number }; readonly notes?: string } = {},
  gang = new Gang(theatre.program, theatre.scene.url, 1),
): Promise<Played> {
  runs += 1;
  const stage = stageOf(theatre.scene, `crash-${runs}`, theatre.folder);
  let joined = false;
  try {
    await scenario.before?.(stage);
    joined = true;
    const victim = await gang.join({ lane: stage.lane, acts: scenario.acts(stage), ...more });
    const end = await live(stage, scenario, victim);
    const early = await resultsOf(stage, scenario);
    await scenario.again?.(stage);
    const died = more.at !== undefined && end === "SIGKILL";
    const ended = died || end === 0 ? [] : [`the process ended with ${end}`];
    await takeOver(stage, scenario);
    return { died, problems: [...ended, ...(await broken(stage, scenario, early))] };
  } catch (error) {
    if (!joined) gang.leave();
    return { died: true, problems: [error instanceof Error ? (error.stack ?? messageOf(error)) : messageOf(error)] };
  }
}

/** Lets the process live until it dies, or has done its part and may end; answers how it ended. */
async function live(stage: Stage, scenario: Scenario, victim: Victim): Promise<number | NodeJS.Signals> {
  const works = scenario.acts(stage).some((act) => act.do === "work");
  const part = async (): Promise<void> => {
    await scenario.during?.(stage);
    if (works && !scenario.acts(stage).some((act) => act.do === "close")) await ended(stage, scenario);
    else await Promise.race([victim.done, victim.ended]);
  };
  const played = part().catch((error: unknown) => {
    if (error instanceof Over) return;
    throw error;
  });
  try {
    await Promise.race([victim.ended, played]);
  } finally {
    victim.release();
  }
  const end = await victim.ended;
  stage.over = true;
  await played;
  return end;
}

/** Waits until every turn has ended and BullMQ was told. */
export async function ended(stage: Stage, scenario: Scenario): Promise<void> {
  const { scene, lane } = stage;
  const until = Date.now() + PATIENCE_MS;
  for (;;) {
    const turns = turnsOf(scenario, lane);
    const rows = await scene.ledger(lane).rows(turns);
    const told = await Promise.all(
      rows.map(async (row) => {
        if (row?.state !== "settled") return false;
        const scores = await Promise.all(
          ["completed", "failed"].map((set) => scene.redis.zscore(scene.bull(lane, set), row.job)),
        );
        return scores.some((score) => score !== null);
      }),
    );
    const [active = 0, wait = 0] = await Promise.all(
      ["active", "wait"].map((list) => scene.redis.llen(scene.bull(lane, list))),
    );
    if (!told.includes(false) && active + wait === 0) return;
    if (stage.over) throw new Over();
    if (Date.now() > until) {
      const what = rows.map((row, i) => `${turns[i]} is ${row?.state}${told[i] === true ? "" : ", not told"}`);
      throw new Error(`not over after ${PATIENCE_MS} ms: ${what.join("; ")}; ${active} active, ${wait} wait`);
    }
    await sleep(20);
  }
}

export async function takeOver(stage: Stage, scenario: Scenario): Promise<void> {
  const survivor = await Party.open(stage.scene.url, stage.lane, "survivor");
  stage.over = false;
  try {
    await survivor.act(scenario.work?.(stage) ?? { do: "work" });
    await ended(stage, scenario);
    await scenario.finally?.(stage);
  } finally {
    await survivor.close();
  }
}
