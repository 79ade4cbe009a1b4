import type { Redis } from "ioredis";
import { TRANSITIONS, type TurnState } from "../../src/domain/lifecycle.ts";
import { validHistory } from "../../src/domain/message.ts";
import { totalTokens, type Usage } from "../../src/domain/usage.ts";
import { laneKey } from "../../src/ledger/keys.ts";
import type { ClosedAttempt, LaneLedger } from "../../src/ledger/ledger.ts";
import type { StoredAttempt } from "../../src/ledger/codec.ts";
import { redisLedger } from "../../src/ledger/redis-ledger.ts";
import { checkLane } from "../check-lane.ts";
import type { Truth } from "./truth.ts";

/** What was seen of a turn before. */
interface SeenTurn {
  state: TurnState;
  attempt: number;
  generation: number;
  readonly cancelled: boolean;
  readonly results: Map<number, string>;
}
export type Seen = Map<string, SeenTurn>;

/** All rows of a lane with the digests of their Results, in one call: it is asked after every change. */
const LOOK = `
local rows = {}
local keys = redis.call("KEYS", ARGV[1] .. "*")
table.sort(keys)
for _, key in ipairs(keys) do
  local id = string.sub(key, #ARGV[1] + 1)
  local row = redis.call("HMGET", key, "state", "attempt", "generation", "open", "cancelAt", "session")
  local head = row[6] ~= "" and redis.call("ZRANGE", ARGV[3] .. row[6], 0, 0)[1] or id
  local results = {}
  for generation = 1, tonumber(row[3]) do
    local result = redis.call("GET", ARGV[2] .. id .. ":" .. generation)
    results[generation] = result and redis.sha1hex(result) or ""
  end
  rows[#rows + 1] = {id, row[1], row[2], row[3], row[4], row[5] or "", head, results}
end
return rows`;
type Look = [
  id: string,
  state: TurnState,
  attempt: string,
  generation: string,
  open: string,
  cancelAt: string,
  /** The turn whose turn it is in its session; without one it is always its own. */
  head: string,
  results: string[],
];

/** What one change may not do, whatever was changed. */
export async function atEachStep(redis: Redis, lane: string, seen: Seen, truth: Truth): Promise<string | undefined> {
  const looked = (await redis.eval(
    LOOK,
    0,
    laneKey(lane, "row"),
    laneKey(lane, "result"),
    laneKey(lane, "sessionQueue"),
  )) as Look[];
  for (const look of looked) {
    const before = seen.get(look[0])?.state;
    const broken = brokenBy(look, seen);
    if (broken !== undefined) return broken;
    const [id, , , generation] = look;
    const retries = truth.retries.get(id) ?? 0;
    if (Number(generation) > retries + 1)
      return `${id} is in generation ${generation}, and was retried ${retries} times`;
    if (look[1] === "settled" && before !== "settled") {
      const wrong = await brokenBySettle(redisLedger(redis, lane), look[0]);
      if (wrong !== undefined) return wrong;
    }
  }
  return undefined;
}

/** A Result that was just stored holds all that was known just then. */
async function brokenBySettle(ledger: LaneLedger, id: string): Promise<string | undefined> {
  const facts = await ledger.facts(id);
  const result = await ledger.result(id, facts.generation);
  if (result === undefined) return `${id} is settled, and its Result is gone`;
  if (result.cancelled !== (facts.cancel !== undefined))
    return `${id} was ${facts.cancel === undefined ? "not " : ""}cancelled before it was settled, and its Result is ${result.status}`;
  const own = facts.attempts.filter(({ attempt }) => attempt >= facts.firstAttempt);
  const known = own.reduce((sum, attempt) => sum + bookedFor(attempt), 0);
  if (tokensOf(result.usage) !== known)
    return `${id} was settled with ${tokensOf(result.usage)} tokens, and ${known} were booked`;
  return undefined;
}

function brokenBy(
  [id, state, attempt, generation, open, cancelAt, head, digests]: Look,
  seen: Seen,
): string | undefined {
  const now = { state, attempt: Number(attempt), generation: Number(generation), cancelled: cancelAt !== "" };
  const before = seen.get(id);
  const results = before?.results ?? new Map<number, string>();
  seen.set(id, { ...now, results });
  const runs = state === "running" || state === "stopping";
  if (runs && head !== id) return `${id} is ${state} before ${head}, which was submitted earlier`;
  if ((open !== "") !== runs) return `${id} is ${state}, and its open attempt is "${open}"`;
  for (const [i, digest] of digests.entries()) {
    const due = i + 1 < now.generation || state === "settled";
    const has = digest === "" ? "no" : "a";
    if (due !== (digest !== ""))
      return `${id} is ${state} in generation ${generation}, and generation ${i + 1} has ${has} Result`;
    if ((results.get(i + 1) ?? digest) !== digest) return `the Result of ${id}, generation ${i + 1}, has changed`;
    if (digest !== "") results.set(i + 1, digest);
  }
  return before === undefined ? undefined : stepBetween(id, before, now);
}

type Place = Omit<SeenTurn, "results">;

function stepBetween(id: string, before: Place, now: Place): string | undefined {
  if (before.state !== now.state && !mayBecome(before.state, now.state))
    return `${id} went from ${before.state} to ${now.state}`;
  if (now.attempt < before.attempt || now.attempt > before.attempt + 1)
    return `${id} went from attempt ${before.attempt} to ${now.attempt}`;
  if (now.attempt > before.attempt && before.cancelled && now.generation === before.generation)
    return `${id} began attempt ${now.attempt} after it was cancelled`;
  if (now.generation < before.generation) return `${id} went back to generation ${now.generation}`;
  if (now.generation > before.generation && before.state !== "settled")
    return `${id} was retried while it was ${before.state}`;
  return undefined;
}

/** One move of the table; a job that is retried in a tool opens a generation and begins in one script. */
function mayBecome(from: TurnState, to: TurnState): boolean {
  const next = (state: TurnState): TurnState[] => Object.values(TRANSITIONS[state]).flat();
  return next(from).includes(to) || (from === "settled" && next("waiting").includes(to));
}

/** What must hold when all is at rest. */
export async function afterAll(redis: Redis, lane: string, truth: Truth): Promise<string | undefined> {
  const ledger = redisLedger(redis, lane);
  const prefix = laneKey(lane, "row");
  const ids = (await redis.keys(`${prefix}*`)).map((key) => key.slice(prefix.length)).toSorted();
  const problems: string[] = [];
  for (const id of ids) {
    const facts = await ledger.facts(id);
    for (const attempt of facts.attempts)
      problems.push(...brokenByAttempt(id, attempt, truth, await ledger.attempt(id, attempt.attempt)));
    for (let generation = 1; generation <= facts.generation; generation += 1) {
      const result = await ledger.result(id, generation);
      if (result === undefined) continue;
      const sum = result.attempts.reduce((all, { usage }) => all + tokensOf(usage), 0);
      if (tokensOf(result.usage) !== sum)
        problems.push(`the Result of ${id} says ${tokensOf(result.usage)} tokens, its attempts ${sum}`);
    }
  }
  for (const key of truth.spent.keys()) {
    const [id = "", attempt] = key.split("#");
    if (!ids.includes(id)) problems.push(`${key} ran, and its turn is not stored`);
    else if (Number(attempt) > Number(await redis.hget(laneKey(lane, "row", id), "attempt")))
      problems.push(`${key} ran, and is not known`);
  }
  problems.push(...(await sessionsOf(redis, lane, ids)), ...(await checkLane(redis, lane)));
  return problems[0];
}

function brokenByAttempt(
  id: string,
  attempt: ClosedAttempt,
  truth: Truth,
  stored: StoredAttempt | undefined,
): string[] {
  const name = `${id}#${attempt.attempt}`;
  const problems = spendOf(name, bookedFor(attempt), truth.of(id, attempt.attempt), attempt.usage);
  // One whose agent was never started is one that its worker does not know of: the reply to its begin came too late.
  const lost = attempt.failure?.code === "worker_lost" && truth.spent.has(name);
  if (lost && !truth.harmed.has(attempt.worker)) problems.push(`${name} was given up, and its worker was well`);
  if (stored === undefined) problems.push(`${name} has no record`);
  for (const type of ["agent_start", "agent_end"] as const) {
    const count = stored?.events.filter((event) => event.type === type).length;
    if (count !== 1) problems.push(`${name} has ${count} ${type}`);
  }
  return problems;
}

function spendOf(name: string, booked: number, spent: number, usage: Usage): string[] {
  if (booked > spent) return [`${name}: ${booked} tokens are booked, ${spent} were spent`];
  if (booked < spent && usage.known === "reported")
    return [`${name}: ${spent} tokens were spent, ${booked} are booked as all there is`];
  return [];
}

/** What is booked for an attempt, late or not. */
function bookedFor({ usage, late }: ClosedAttempt): number {
  return tokensOf(usage) + (late === undefined ? 0 : tokensOf(late));
}

function tokensOf(usage: Usage): number {
  return totalTokens(usage) ?? 0;
}

/** Turns that ended well stand in a session in their order, and its messages are valid. */
async function sessionsOf(redis: Redis, lane: string, ids: readonly string[]): Promise<string[]> {
  const problems: string[] = [];
  const sessions = new Set(
    (await Promise.all(ids.map((id) => redis.hget(laneKey(lane, "row", id), "session")))).filter(Boolean),
  );
  for (const session of sessions) {
    const parts = await redis.lrange(laneKey(lane, "messages", session ?? ""), 0, -1);
    const iteration = Number((await redis.hget(laneKey(lane, "session", session ?? ""), "iteration")) ?? 0);
    if (parts.length !== iteration)
      problems.push(`session ${session} has ${parts.length} turns of messages in iteration ${iteration}`);
    const messages = parts.flatMap((part) => JSON.parse(part) as Parameters<typeof validHistory>[0]);
    if (JSON.stringify(validHistory(messages)) !== JSON.stringify(messages))
      problems.push(`the messages of session ${session} are not valid`);
    const answers = messages.flatMap(({ role, content }) => (role === "assistant" ? JSON.stringify(content) : []));
    const due = answers.map((_, i) => JSON.stringify(`answer ${i + 1}`));
    if (JSON.stringify(answers) !== JSON.stringify(due))
      problems.push(`session ${session} has the answers ${answers.join(", ")}`);
  }
  return problems;
}
