import { expect, test } from "vitest";
import { withoutPasswords } from "../../../src/telemetry/passwords.ts";
import { openLog } from "../../../src/telemetry/pino-log.ts";

function logged(pretty: boolean, level = "info"): string {
  let text = "";
  const log = openLog({ level, pretty, colors: false, write: (line) => (text += line) });
  log.info(
    { url: "redis://me:pa55w0rd@host:1/0", nested: { error: "at rediss://:pa55w0rd@h" } },
    "redis://u:pa55w0rd@h is away",
  );
  log.debug({}, "not at this level");
  return text;
}

test("a line is JSON for programs and words for people, and has no password of a URL in it", () => {
  const [line, ...more] = logged(false).trim().split("\n");
  expect(more).toEqual([]);
  expect(JSON.parse(line ?? "")).toMatchObject({
    level: 30,
    msg: "redis://u:***@h is away",
    url: "redis://me:***@host:1/0",
  });
  expect(logged(true)).toContain("INFO: redis://u:***@h is away");
  expect(logged(false) + logged(true)).not.toContain("pa55w0rd");
});

test("a silent log says nothing", () => {
  expect(logged(false, "silent")).toBe("");
});

test.each([
  ["redis://:a@h:1", "redis://:***@h:1"],
  ["(https://u:p:q@h/x)", "(https://u:***@h/x)"],
  ["redis://:a/b@h", "redis://:***@h"],
  ["no url: a@b", "no url: a@b"],
])("%s is shown as %s", (text, shown) => {
  expect(withoutPasswords(text)).toBe(shown);
});
