import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { SCRIPT_NAMES } from "../../../src/ledger/scripts.ts";
import { DOORS, effect, installProbe, type Point } from "../../../src/pause/effect.ts";

afterEach(() => installProbe(undefined));

test("without a probe an effect is its call", async () => {
  const answer = Promise.resolve(1);
  expect(effect("bull:fetch", () => answer)).toBe(answer);
  await answer;
});

test("a probe is told before and after, and what it answers is awaited", async () => {
  const told: (Point | "call")[] = [];
  let go = (): void => {};
  installProbe((point) => {
    told.push(point);
    if (point.startsWith("before")) return new Promise((resolve) => (go = resolve));
    return undefined;
  });
  const answer = effect("script:begin", () => {
    told.push("call");
    return Promise.resolve(2);
  });
  expect(told).toEqual(["before:script:begin"]);
  go();
  expect(await answer).toBe(2);
  expect(told).toEqual(["before:script:begin", "call", "after:script:begin"]);
});

test("what fails has no after", async () => {
  const told: Point[] = [];
  installProbe((point) => void told.push(point));
  await expect(effect("bull:wait", () => Promise.reject(new Error("no")))).rejects.toThrow("no");
  expect(told).toEqual(["before:bull:wait"]);
});

const files = ["src/ledger", "src/queue"].flatMap((folder) =>
  readdirSync(folder)
    .filter((name) => name.endsWith(".ts"))
    .map((name) => ({ path: join(folder, name), text: readFileSync(join(folder, name), "utf8") })),
);

test("every door is somewhere in the code, and every script goes through one", () => {
  const code = files.map(({ text }) => text).join("\n");
  expect(DOORS.filter((door) => !code.includes(`"${door}"`))).toEqual([]);
  const called = (name: string): boolean =>
    new RegExp(`#run\\(\\s*"${name}"`).test(code) || code.includes(`commandOf("${name}")`);
  expect(SCRIPT_NAMES.filter((name) => !called(name))).toEqual([]);
});

/** What changes something in Redis, as code of ours would call it. */
const CHANGES =
  /\.(set|setex|hset|hdel|del|unlink|sadd|srem|zadd|zrem|lpush|rpush|lrem|xadd|xtrim|incr\w*|expire|pexpire|publish|exec|sweepEarlier)\(/g;
/** Commands of ours that are changes of a Map or Set have such names too, and these are all of them. */
const OF_REDIS = /(redis|transaction|processes)\s*$/i;

test("whatever changes something in Redis is behind a door", () => {
  const open = files.flatMap(({ path, text }) =>
    [...text.matchAll(CHANGES)].flatMap((match) => {
      const statement = text.slice(text.lastIndexOf(";", match.index) + 1, match.index);
      if (!OF_REDIS.test(statement) || statement.includes("effect(")) return [];
      return [`${path}: ${statement.trim()}${match[0]}…`];
    }),
  );
  expect(open).toEqual([]);
});
