import { QueueKeys } from "bullmq";
import fc from "fast-check";
import { expect, test } from "vitest";
import { jobId, KIND, laneKey, laneTag, settledChannel, turnOfJob } from "../../../src/ledger/keys.ts";
import { Id } from "../../../src/domain/id.ts";

/** Any id that is accepted: also digits, colons in every place, what looks like our own marks. */
const anyId = fc.oneof(
  fc.stringMatching(/^[A-Za-z0-9._\-/:@]{1,200}$/),
  fc.integer().map(String),
  fc.constantFrom("0", "NaN", "-5", "0:1", "a:b", "a:b:c", "a:b:c:d", ":", "::", "1e5", "-", "01", "wait", "pc"),
);

test("A20, property: a job's id gives back the turn's id, for every generation, and BullMQ takes it", () => {
  fc.assert(
    fc.property(anyId, fc.integer({ min: 1, max: 1000 }), (id, generation) => {
      expect(Id.safeParse(id).success).toBe(true);
      const job = jobId(id, generation);
      expect(turnOfJob(job)).toBe(id);
      // BullMQ's rules: no `:`, no integer, no `0:` in front.
      expect(job).not.toMatch(/:/);
      expect(`${Number.parseInt(job, 10)}`).not.toBe(job);
    }),
  );
});

test("A20: a turn may be called like one of BullMQ's own keys: its job is not that key", () => {
  const own = Object.keys(new QueueKeys().getKeys("q")).filter((key) => key !== "");
  expect(own.length).toBeGreaterThan(10);
  for (const key of own) {
    expect(own).not.toContain(jobId(key));
    expect(turnOfJob(jobId(key))).toBe(key);
  }
});

test("property: two turns or two generations never share a job", () => {
  fc.assert(
    fc.property(anyId, anyId, fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 12 }), (a, b, g, h) => {
      fc.pre(a !== b || g !== h);
      expect(jobId(a, g)).not.toBe(jobId(b, h));
    }),
  );
});

test("every key of a lane carries its tag, kinds do not run into one another or into BullMQ's keys", () => {
  const tag = laneTag("a/b");
  expect(tag).toBe("{turnq:a/b}");
  const keys = (Object.keys(KIND) as (keyof typeof KIND)[]).map((kind) => laneKey("a/b", kind, "x"));
  expect(new Set(keys).size).toBe(keys.length);
  for (const key of keys) expect(key.startsWith(`${tag}/`)).toBe(true);
  expect(settledChannel("a/b")).toBe(`${tag}/settled`);
  for (const [name, kind] of Object.entries(KIND)) {
    const others = Object.entries(KIND).filter(([other]) => other !== name);
    for (const [, other] of others)
      if (kind.endsWith(":")) expect(other.startsWith(kind), `${other} is within ${kind}`).toBe(false);
  }
});
