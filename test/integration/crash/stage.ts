import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Action } from "../../../src/agents/scripted/script.ts";
import type { TurnRequest } from "../../../src/domain/turn-request.ts";
import { laneKey } from "../../../src/ledger/keys.ts";
import { Party, type Act } from "../../fixtures/crash/party.ts";
import { testEvents } from "../../lane.ts";
import type { Scene } from "../queue/scene.ts";

/** Where one run of a scenario takes place: a lane, files of its own, and the test's own connections. */
export interface Stage {
  readonly scene: Scene;
  readonly lane: string;
  readonly folder: string;
  /** What agents run and spend, one line each: `run TURN ATTEMPT` and `spent TURN ATTEMPT TOKENS`. Outside of Redis. */
  readonly spent: string;
  /** A file that something waits for. */
  readonly cue: string;
  /** Set when the process has ended: what happens while it runs is over then. */
  over: boolean;
}

/** The process ended before something came to pass. */
export class Over extends Error {}

export function stageOf(scene: Scene, lane: string, folder: string): Stage {
  return { scene, lane, folder, spent: join(folder, `${lane}.spent`), cue: join(folder, `${lane}.cue`), over: false };
}

export const WORK: Act = { do: "work" };
export const BACKOFF = { backoff: { delayMs: 20, jitter: 0 } };

export const run = ({ spent }: Stage): Action => ({ append: spent, line: "run {turn} {attempt}" });

/** A model call that is announced, paid for, and reported. */
export function call({ spent }: Stage, tokens: number): Action[] {
  return [
    { call: true },
    { append: spent, line: `spent {turn} {attempt} ${tokens}` },
    { usage: { inputTokens: tokens } },
  ];
}

export function well(stage: Stage): Action[] {
  return [
    run(stage),
    ...call(stage, 5),
    { tool: "t", args: { a: 1 }, result: "r" },
    ...call(stage, 7),
    { say: "in {iteration} of {turn}" },
  ];
}

export interface Wanted extends Partial<TurnRequest> {
  readonly script?: Readonly<Record<string, readonly Action[]>>;
}

export function request(stage: Stage, id: string, { script, ...more }: Wanted = {}): TurnRequest {
  const whole = { "*": well(stage), ...script };
  return {
    id,
    agent: stage.lane,
    input: `input of ${id}`,
    options: { script: whole as never },
    retry: { maxCrashes: 20, ...BACKOFF },
    ...more,
  } as TurnRequest;
}

export async function submit(stage: Stage, ...requests: readonly TurnRequest[]): Promise<void> {
  const party = await Party.open(stage.scene.url, stage.lane, "submitter");
  await party.act({ do: "submit", requests });
  await party.close();
}

/** Runs turns to their end, before anything is killed. */
export async function settled(stage: Stage, ...ids: readonly string[]): Promise<void> {
  const party = await Party.open(stage.scene.url, stage.lane, "earlier");
  await party.act(WORK);
  for (const id of ids) await stage.scene.told(stage.lane, id);
  await party.close();
}

/** A worker of which nobody hears again begins an attempt, and its lease ends. */
export async function lose(stage: Stage, turn: string): Promise<void> {
  const { scene, lane } = stage;
  const ledger = scene.ledger(lane);
  await scene.redis.hincrby(scene.bull(lane, turn), "ats", 1);
  await scene.redis.set(scene.bull(lane, `${turn}:lock`), "token", "PX", 1);
  await scene.redis.set(scene.bull(lane, `${turn}:lock`), "token");
  const begun = await ledger.begin({ turn, job: turn, token: "token", attemptsStarted: 1 }, "dead", true);
  if (begun.kind !== "run") throw new Error(`begin answered ${begun.kind}`);
  const usage = { inputTokens: 5, modelCalls: 1, toolCalls: 0, known: "reported" } as const;
  const events = testEvents(
    turn,
    1,
    0,
    { type: "agent_start", agent: lane },
    { type: "step_start", number: 1 },
    { type: "call_start" },
    { type: "usage", usage },
    { type: "tool_start", id: "t", name: "t", args: {} },
    { type: "call_start" },
  );
  await ledger.append(turn, 1, events);
  appendFileSync(stage.spent, `run ${turn} 1\nspent ${turn} 1 5\nspent ${turn} 1 7\n`);
  await scene.redis.del(scene.bull(lane, `${turn}:lock`));
  // Somebody renews in this lane, so that it is the worker that is gone and not Redis.
  await ledger.renew([]);
  await scene.redis.zadd(laneKey(lane, "leases"), "XX", 1, `${turn}#1`);
}

/** What agents of a stage wrote outside of Redis. */
export function linesOf({ spent }: Pick<Stage, "spent">): string[] {
  return existsSync(spent) ? readFileSync(spent, "utf8").split("\n").slice(0, -1) : [];
}

/** Waits, while the process runs. */
export async function come(stage: Stage, ask: () => Promise<unknown> | boolean): Promise<void> {
  while ((await ask()) !== true) {
    if (stage.over) throw new Over();
    await sleep(10);
  }
}

export const seen = (stage: Stage, line: string): Promise<unknown> => come(stage, () => linesOf(stage).includes(line));

export async function cancelAsPerson({ scene, lane }: Stage, turn: string): Promise<void> {
  await (await scene.turnq.turn(turn, { lane })).cancel({ reason: "enough" });
}

/** Goes on for a second unless it is told to stop. */
export const forAWhile = (): Action[] =>
  Array.from({ length: 50 }, (): Action[] => [{ poll: true }, { wait: 20 }]).flat();

export const waiting = (stage: Stage): Action[] => [run(stage), ...call(stage, 5), { poll: true, every: 5 }];
