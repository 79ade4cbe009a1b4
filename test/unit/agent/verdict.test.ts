import { describe, expect, it } from "vitest";
import { failure } from "../../../src/domain/failure.ts";
import { StopReason } from "../../../src/domain/stop-reason.ts";
import { endOfKill, endOfStop, verdictOf, type Ending, type Facts } from "../../../src/agent/verdict.ts";

const whole: Ending = { status: "completed", crashed: false };
const limited: Ending = { status: "limit_reached", crashed: false, stopReason: "max_steps" };
const failed: Ending = { status: "failed", crashed: false, failure: failure("auth", "401") };
const crashed: Ending = {
  status: "crashed",
  crashed: true,
  crashReason: "boom",
  failure: failure("agent_crash", "boom"),
};
const late: Ending = { status: "timeout", crashed: true, failure: failure("timeout", "late") };

function verdict(own: Ending, more: Partial<Facts> = {}): string {
  const {
    status,
    crashed: partial,
    failure: why,
    stopReason,
  } = verdictOf({ own, threw: own.crashed, limits: { timeoutMs: 50 }, ...more });
  return [status, partial ? "crashed" : "whole", why?.code ?? "-", stopReason ?? "-"].join(" ");
}

describe("verdictOf", () => {
  it.each([
    ["completed", whole, {}, "completed whole - -"],
    ["limit", limited, {}, "limit_reached whole - max_steps"],
    ["failed keeps its failure", failed, {}, "failed whole auth -"],
    ["crash", crashed, {}, "crashed crashed agent_crash -"],
    ["killed at the deadline", whole, { killed: "timeout" }, "timeout crashed timeout deadline"],
    [
      "killed at the deadline after a cancel",
      whole,
      { killed: "timeout", requested: "cancelled" },
      "timeout crashed timeout deadline",
    ],
    [
      "killed after a cancel",
      crashed,
      { killed: "cancelled", requested: "cancelled" },
      "cancelled crashed cancelled cancelled",
    ],
    [
      "killed at a shutdown",
      crashed,
      { killed: "shutdown", requested: "shutdown" },
      "interrupted crashed interrupted shutdown",
    ],
    [
      "killed without a lease",
      whole,
      { killed: "lease_lost", requested: "lease_lost" },
      "lost crashed worker_lost lease_lost",
    ],
    ["whole answer after a cancel", whole, { requested: "cancelled" }, "cancelled whole cancelled cancelled"],
    ["failed after a cancel", failed, { requested: "cancelled" }, "cancelled whole cancelled cancelled"],
    ["crashed after a cancel", crashed, { requested: "cancelled" }, "cancelled crashed cancelled cancelled"],
    ["own deadline after a cancel", late, { requested: "cancelled" }, "timeout crashed timeout -"],
    ["whole answer at a shutdown", whole, { requested: "shutdown" }, "completed whole - -"],
    ["limit at a shutdown", limited, { requested: "shutdown" }, "limit_reached whole - max_steps"],
    ["failed at a shutdown", failed, { requested: "shutdown" }, "failed whole auth -"],
    [
      "stopped for the shutdown",
      endOfStop("shutdown"),
      { requested: "shutdown" },
      "interrupted whole interrupted shutdown",
    ],
    ["crashed at a shutdown", crashed, { requested: "shutdown" }, "interrupted crashed interrupted shutdown"],
    ["an interruption that nobody asked for", endOfStop("shutdown"), {}, "failed whole agent_error -"],
    ["a lost lease of its own", endOfStop("lease_lost"), {}, "failed whole agent_error -"],
    ["a cancel of its own", endOfStop("cancelled"), {}, "failed whole agent_error -"],
    [
      "an interruption of its own after a cancel",
      endOfStop("shutdown"),
      { requested: "cancelled" },
      "cancelled whole cancelled cancelled",
    ],
    [
      "a lost lease of its own at a shutdown",
      endOfStop("lease_lost"),
      { requested: "shutdown" },
      "failed whole agent_error -",
    ],
    [
      "a failure code that is the worker's",
      { ...failed, failure: failure("interrupted", "x") },
      {},
      "failed whole agent_error -",
    ],
    ["whole answer without a lease", whole, { requested: "lease_lost" }, "lost whole worker_lost lease_lost"],
  ] as const satisfies [string, Ending, Partial<Facts>, string][])("%s", (_name, own, more, expected) => {
    expect(verdict(own, more)).toBe(expected);
  });

  it("a crash after a request keeps its own reason", () => {
    const facts = { own: crashed, threw: true, requested: "cancelled", limits: { timeoutMs: 50 } } as const;
    expect(verdictOf(facts).crashReason).toBe("boom");
    expect(endOfKill("cancelled", { timeoutMs: 50 }).crashReason).toBe("turn cancelled");
  });

  it("each stop reason has an end that is no crash", () => {
    const ends = Object.fromEntries(StopReason.options.map((reason) => [reason, endOfStop(reason).status]));
    expect(ends).toEqual({
      cancelled: "cancelled",
      shutdown: "interrupted",
      lease_lost: "lost",
      deadline: "stopped_early",
      criterion: "stopped_early",
      max_steps: "limit_reached",
      max_tool_calls: "limit_reached",
      max_tokens: "limit_reached",
      max_cost: "limit_reached",
    });
    expect(StopReason.options.every((reason) => !endOfStop(reason).crashed)).toBe(true);
  });
});
