import { describe, expect, test } from "vitest";
import { retryAtOf } from "../../../../src/agents/chat/retry-after.ts";

const NOW = Date.parse("2026-10-21T07:28:00Z");
const DAY = 86_400_000;

describe("C44: when a provider may be asked again", () => {
  test.each<[string, Record<string, string>, number | undefined]>([
    ["seconds", { "retry-after": "2" }, 2000],
    ["part of a second", { "retry-after": "0.5" }, 500],
    ["at once", { "retry-after": "0" }, 0],
    ["milliseconds win", { "retry-after-ms": "150", "retry-after": "1" }, 150],
    ["a date", { "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT" }, 30_000],
    ["a date that is past", { "retry-after": "Wed, 21 Oct 2026 07:00:00 GMT" }, 0],
    ["an absurd time is a day", { "retry-after": "999999" }, DAY],
    ["a word says nothing", { "retry-after": "soon" }, undefined],
    ["a number below 0 says nothing", { "retry-after": "-5" }, undefined],
    ["nothing", {}, undefined],
    [
      "OpenAI's limit that is used up",
      { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m2s" },
      62_000,
    ],
    [
      "one that is not used up",
      { "x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "1m2s" },
      undefined,
    ],
    [
      "the last of several",
      {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "20ms",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "1.5s",
      },
      1500,
    ],
    [
      "Anthropic's instants",
      { "anthropic-ratelimit-requests-remaining": "0", "anthropic-ratelimit-requests-reset": "2026-10-21T07:29:00Z" },
      60_000,
    ],
    ["a reset in seconds that says nothing of what is left", { "x-ratelimit-reset": "12" }, 12_000],
    ["a reset as an instant in seconds", { "x-ratelimit-reset": String(NOW / 1000 + 5) }, 5000],
    ["a reset as an instant in ms", { "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(NOW + 5000) }, 5000],
    [
      "a date by a clock that is an hour behind",
      { date: "Wed, 21 Oct 2026 06:28:00 GMT", "retry-after": "Wed, 21 Oct 2026 06:28:30 GMT" },
      30_000,
    ],
  ])("%s", (_name, headers, waitMs) => {
    expect(retryAtOf(headers, NOW, true)).toBe(waitMs === undefined ? undefined : NOW + waitMs);
  });

  test("limits are not the reason of a failure of the server", () => {
    expect(retryAtOf({ "x-ratelimit-remaining": "0", "x-ratelimit-reset": "12" }, NOW, false)).toBeUndefined();
    expect(retryAtOf({ "retry-after": "12" }, NOW, false)).toBe(NOW + 12_000);
  });
});
