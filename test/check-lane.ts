import { isCrashed } from "../src/domain/turn-record.ts";
import type { Redis } from "ioredis";
import { TurnState } from "../src/domain/lifecycle.ts";
import { Outcome } from "../src/domain/turn-result.ts";
import { costOfParts } from "../src/domain/cost.ts";
import { USAGE_FIELDS, sumUsage, type Usage } from "../src/domain/usage.ts";
import { closedAttempts } from "../src/ledger/answers.ts";
import { laneKey, laneTag } from "../src/ledger/keys.ts";
import type { ClosedAttempt } from "../src/ledger/ledger.ts";

type Fields = Readonly<Record<string, string>>;

interface Turn {
  readonly id: string;
  readonly row: Fields;
  readonly attempts: readonly ClosedAttempt[];
  readonly numbers: readonly number[];
}

/**
 * Recomputes from the rows and attempts of a lane what its indexes, counts, leases and sessions
 * must be. Answers what does not agree, in words; an empty list when all is well. The lane must
 * be at rest.
 */
export async function checkLane(redis: Redis, lane: string): Promise<string[]> {
  const problems: string[] = [];
  const differ = (what: string, found: unknown, due: unknown): void => {
    const [a, b] = [JSON.stringify(found), JSON.stringify(due)];
    if (a !== b) problems.push(`${what}: found ${a}, due ${b}`);
  };
  const turns = await turnsOf(redis, lane);
  const members = (key: string): Promise<string[]> => redis.zrange(key, "0", "-1");

  for (const state of TurnState.options) {
    const due = turns.filter(({ row }) => row["state"] === state).map(({ id }) => id);
    differ(`index of ${state}`, (await members(laneKey(lane, "state", state))).toSorted(), due.toSorted());
  }
  const open = turns.filter(({ row }) => row["open"] !== "").map(({ id, row }) => `${id}#${row["attempt"]}`);
  differ("leases", (await members(laneKey(lane, "leases"))).toSorted(), open.toSorted());
  const expiring = turns.filter(({ row }) => row["expiresAt"] !== undefined).map(({ id }) => id);
  differ("index of expiry", (await members(laneKey(lane, "expiry"))).toSorted(), expiring.toSorted());
  for (const turn of turns) checkTurn(turn, differ);
  for (const batch of distinct(turns, "batch"))
    await checkBatch(
      redis,
      lane,
      batch,
      turns.filter(({ row }) => row["batch"] === batch),
      differ,
    );
  for (const session of distinct(turns, "session"))
    await checkSession(
      redis,
      lane,
      session,
      turns.filter(({ row }) => row["session"] === session),
      differ,
    );
  for (const { id, row } of turns) {
    if (row["state"] !== "settled") continue;
    for (let generation = 1; generation <= Number(row["generation"]); generation++) {
      differ(
        `Result of ${id}, generation ${generation}`,
        await redis.exists(laneKey(lane, "result", id, generation)),
        1,
      );
    }
  }
  return problems;
}

type Differ = (what: string, found: unknown, due: unknown) => void;

async function turnsOf(redis: Redis, lane: string): Promise<Turn[]> {
  const prefix = laneKey(lane, "row");
  const keys = await redis.keys(`${laneTag(lane).replaceAll(/[[\]?*\\]/g, "\\$&")}/row:*`);
  return Promise.all(
    keys.toSorted().map(async (key): Promise<Turn> => {
      const id = key.slice(prefix.length);
      const [row, attempts] = await Promise.all([redis.hgetall(key), redis.hgetall(laneKey(lane, "attempts", id))]);
      const numbers = Object.keys(attempts)
        .filter((field) => !field.includes(":"))
        .map(Number);
      return {
        id,
        row,
        attempts: closedAttempts(Object.entries(attempts).flat()),
        numbers: numbers.toSorted((a, b) => a - b),
      };
    }),
  );
}

function distinct(turns: readonly Turn[], field: string): string[] {
  return [...new Set(turns.map(({ row }) => row[field] ?? ""))].filter((value) => value !== "");
}

function checkTurn({ id, row, attempts, numbers }: Turn, differ: Differ): void {
  const running = row["state"] === "running" || row["state"] === "stopping";
  differ(`${id} has an open attempt`, row["open"] !== "", running);
  differ(
    `attempts of ${id}`,
    numbers,
    Array.from({ length: Number(row["attempt"]) }, (_, i) => i + 1),
  );
  differ(`closed attempts of ${id}`, attempts.length, Number(row["attempt"]) - (running ? 1 : 0));
  differ(
    `crashed attempts of ${id}`,
    Number(row["crashed"]),
    attempts.filter(({ status }) => isCrashed(status)).length,
  );
  // Nothing follows a cancel: whoever has the attempt settles the turn, and without one it was settled at once.
  differ(
    `${id} was cancelled and waits`,
    row["cancelAt"] !== undefined && !running && row["state"] !== "settled",
    false,
  );
  const started = row["startedAt"] !== undefined || row["state"] === "settled";
  differ(`${id} was started and expires`, started && row["expiresAt"] !== undefined, false);
  differ(`outcome of ${id}`, Outcome.safeParse(row["outcome"]).success, row["state"] === "settled");
}

async function checkBatch(
  redis: Redis,
  lane: string,
  batch: string,
  turns: readonly Turn[],
  differ: Differ,
): Promise<void> {
  const found = await redis.hgetall(laneKey(lane, "batch", batch));
  const number = (field: string): number => Number(found[field] ?? 0);
  const share = (field: string, value: string): number => turns.filter(({ row }) => row[field] === value).length;
  const say = (what: string): string => `${what} of batch ${batch}`;
  // The counts hold what retention has removed.
  const retired = number("retired");
  const states = (state: TurnState): number => share("state", state) + (state === "settled" ? retired : 0);
  const flagged = (field: string): number => share(field, "1") + number(`r:${field}`);
  differ(say("turns"), number("turns"), turns.length + retired);
  for (const state of TurnState.options) differ(say(state), number(`s:${state}`), states(state));
  for (const outcome of Outcome.options)
    differ(say(outcome), number(`o:${outcome}`), share("outcome", outcome) + number(`r:${outcome}`));
  differ(say("scored"), number("scored"), flagged("scored"));
  differ(say("passed"), number("passed"), flagged("passed"));
  if (retired === 0) checkSpend(turns, number, say, differ);
  differ(
    say("index"),
    (await redis.zrange(laneKey(lane, "batchTurns", batch), "0", "-1")).toSorted(),
    turns.map(({ id }) => id).toSorted(),
  );
  const settled = turns.filter(({ row }) => row["state"] === "settled").map(({ id }) => id);
  differ(
    say("settled index"),
    (await redis.zrange(laneKey(lane, "batchSettled", batch), "0", "-1")).toSorted(),
    settled.toSorted(),
  );
  differ(say("entry in the list of batches"), (await redis.zscore(laneKey(lane, "batches"), batch)) === null, false);
}

function checkSpend(
  turns: readonly Turn[],
  number: (field: string) => number,
  say: (what: string) => string,
  differ: Differ,
): void {
  const attempts = turns.flatMap((turn) => turn.attempts);
  differ(say("attempts"), number("attempts"), attempts.length);
  differ(say("crashed attempts"), number("crashed"), attempts.filter(({ status }) => isCrashed(status)).length);
  const usages = attempts.flatMap(({ usage, late }): Usage[] => (late === undefined ? [usage] : [usage, late]));
  for (const field of USAGE_FIELDS) {
    const found = field === "costUsd" ? costOfParts(number("u:costNanoUsd")) : number(`u:${field}`);
    differ(say(field), found, sumUsage(usages)[field] ?? 0);
  }
  for (const known of ["reported", "partial", "unknown"])
    differ(say(known), number(`known:${known}`), usages.filter((usage) => usage.known === known).length);
}

async function checkSession(
  redis: Redis,
  lane: string,
  session: string,
  turns: readonly Turn[],
  differ: Differ,
): Promise<void> {
  const queue = await redis.zrange(laneKey(lane, "sessionQueue", session), "0", "-1");
  const open = turns.filter(({ row }) => row["state"] !== "settled");
  differ(`queue of session ${session}`, queue.toSorted(), open.map(({ id }) => id).toSorted());
  const submitted = queue.map((id) => Number(open.find((turn) => turn.id === id)?.row["submittedAt"]));
  differ(
    `order of session ${session}`,
    submitted,
    submitted.toSorted((a, b) => a - b),
  );
  for (const { id, row } of open) {
    if (queue[0] !== id) differ(`state of ${id} behind the head of session ${session}`, row["state"], "parked");
    else differ(`head ${id} of session ${session} is parked`, row["state"] === "parked", false);
  }
  const iteration = Number((await redis.hget(laneKey(lane, "session", session), "iteration")) ?? 0);
  differ(`iteration of session ${session}`, iteration, await redis.llen(laneKey(lane, "messages", session)));
}
