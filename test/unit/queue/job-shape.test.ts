import { expect, test } from "vitest";
import { buildResult, closedAttempt } from "../../../src/queue/build-result.ts";
import { jobData, returnValue, shownRecord } from "../../../src/queue/job-shape.ts";
import { toldAsFailed } from "../../../src/queue/tell.ts";
import { failure, FailureCode } from "../../../src/domain/failure.ts";
import { AttemptStatus } from "../../../src/domain/turn-record.ts";
import type { TurnFacts } from "../../../src/ledger/ledger.ts";
import { storedRequest } from "../../agents.ts";
import { testRecord } from "../../lane.ts";

const facts: TurnFacts = {
  request: storedRequest(),
  generation: 1,
  firstAttempt: 1,
  spent: 0,
  crashes: 0,
  seq: 0,
  rev: 0,
  submittedAt: 0,
  startedAt: 0,
  attempts: [],
};
const record = (more: Parameters<typeof testRecord>[1] = {}) => testRecord({ attempt: 1, iteration: 1, facts }, more);
const resultOf = (more: Parameters<typeof testRecord>[1] = {}) => {
  const made = record(more);
  return buildResult({ turn: "t1", facts, record: made, summary: closedAttempt(made, "w"), score: null });
};

test("a job's data holds what a list shows, and nothing that is absent", () => {
  expect(jobData(storedRequest())).toEqual({ v: 1, turn: "t1", agent: "a", input: "hello", crashed: [] });
  const full = storedRequest({
    session: "s",
    batch: { id: "b", sample: "1", epoch: 1 },
    labels: { a: "b" },
    input: [{ type: "text", text: "parts" }],
  });
  expect(jobData(full)).toEqual({
    v: 1,
    turn: "t1",
    agent: "a",
    session: "s",
    batch: "b",
    labels: { a: "b" },
    input: "parts",
    crashed: [],
  });
});

test("C42: a long input is cut at 2 KB with one mark, never inside a character", () => {
  const { input } = jobData(storedRequest({ input: "😀".repeat(5000) }));
  expect(input.length).toBeLessThanOrEqual(2048);
  expect(input.endsWith("…")).toBe(true);
  expect(input.isWellFormed()).toBe(true);
});

test("a crashed record is whole up to 4 KB; above it its summary with the end of its output", () => {
  const small = record({ status: "crashed", output: "small" });
  const large = record({ status: "crashed", output: `${"x".repeat(10_000)}the end` });
  const [first, second] = [shownRecord(small), shownRecord(large) as Record<string, unknown>];
  expect(first).toEqual(small);
  expect(second).toMatchObject({
    attempt: 1,
    status: "crashed",
    crashed: true,
    cut: true,
    steps: 0,
    usage: large.usage,
  });
  expect(String(second["output"])).toHaveLength(500);
  expect(String(second["output"]).endsWith("the end")).toBe(true);
  expect("messages" in second).toBe(false);
});

test("D23: at most the last 20 crashed records are shown", () => {
  const crashed = Array.from({ length: 25 }, (_, i) => record({ status: "crashed", attempt: i + 1 }));
  const shown = jobData(storedRequest(), crashed).crashed as { attempt: number }[];
  expect(shown.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 20 }, (_, i) => i + 6));
});

test("the return value is the Result itself while it is short", () => {
  const result = resultOf();
  expect(returnValue(result)).toBe(result);
});

test("long messages and a long output are by reference, each by itself", () => {
  const messages = [{ role: "user", content: "x".repeat(5000) }] as const;
  const talkative = resultOf({ messages: [...messages] });
  expect(returnValue(talkative)).toEqual({ ...talkative, messages: [], elsewhere: { messages: 1 } });
  const long = resultOf({ output: "y".repeat(20_000) });
  const shown = returnValue(long);
  expect(shown.output).toHaveLength(16_384);
  expect(shown.elsewhere).toEqual({ outputChars: 20_000 });
  expect(shown.messages).toEqual(long.messages);
});

test.each(AttemptStatus.options)("what BullMQ is told of an attempt that ended as %s", (status) => {
  const failedOnes = ["crashed", "lost", "timeout"];
  expect(toldAsFailed(resultOf({ status, failure: failure("agent_error", "x") }))).toBe(failedOnes.includes(status));
});

test.each(FailureCode.options)("what BullMQ is told of a failure %s that the agent told", (code) => {
  expect(toldAsFailed(resultOf({ status: "failed", failure: failure(code, "x") }))).toBe(
    ["config", "auth", "invalid_request", "internal"].includes(code),
  );
});
