import { describe, expect, it } from "vitest";
import { TurnqError } from "../../../src/domain/error.ts";
import { FAILURE_MESSAGE_MAX, Failure, failure } from "../../../src/domain/failure.ts";
import { AgentCrashError, TurnTimeoutError, normalizeThrown } from "../../../src/agent/turn-errors.ts";

describe("normalizeThrown", () => {
  const hostile = {
    get failure(): never {
      throw new Error("a trap");
    },
  };
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;

  const things: [string, unknown][] = [
    ["null", null],
    ["undefined", undefined],
    ["a string", "plain text"],
    ["an empty string", ""],
    ["a number", 7],
    ["a symbol", Symbol("s")],
    ["a bigint", 10n],
    ["a cycle", cycle],
    ["an empty object", {}],
    ["an error without a message", new Error("")],
    ["an object that throws when read", hostile],
    ["an object without a prototype", Object.create(null)],
  ];
  it("makes agent_crash of everything else", () => {
    for (const [name, thrown] of things) {
      const said = normalizeThrown(thrown);
      expect(Failure.parse(said).code, name).toBe("agent_crash");
      expect(said.retryable, name).toBe(true);
    }
  });

  it("keeps the failure that an error bears, with what it says of a retry", () => {
    const error = Object.assign(new Error("busy"), {
      failure: failure("overloaded", "try later", { retryable: false }),
    });
    expect(normalizeThrown(error)).toMatchObject({ code: "overloaded", message: "try later", retryable: false });
  });

  it("keeps a code that is a failure's", () => {
    const error = Object.assign(new Error("no key"), { code: "auth", retryable: true, cause: new Error("401") });
    expect(normalizeThrown(error)).toEqual({
      code: "auth",
      message: "no key",
      retryable: true,
      cause: { message: "401" },
    });
    expect(normalizeThrown(new TurnqError("config", "bad")).code).toBe("config");
    expect(normalizeThrown(Object.assign(new Error("x"), { code: "ENOENT" })).code).toBe("agent_crash");
  });

  it.each(["worker_lost", "interrupted", "cancelled", "expired", "timeout"])("an agent cannot claim `%s`", (code) => {
    expect(normalizeThrown(Object.assign(new Error("x"), { code })).code).toBe("agent_crash");
    const said = { failure: { code, message: "x", retryable: true } };
    expect(normalizeThrown(said)).toMatchObject({ code: "agent_error", retryable: true });
  });

  it("C54: a timeout inside the agent, the turn's own and a crash are three things", () => {
    const tool = Object.assign(new Error("tool timed out after 30 s"), { code: "agent_error" });
    expect(normalizeThrown(tool)).toMatchObject({ code: "agent_error", message: "tool timed out after 30 s" });
    expect(normalizeThrown(new TurnTimeoutError(2000)).code).toBe("timeout");
    expect(normalizeThrown(new AgentCrashError("segfault")).code).toBe("agent_crash");
  });

  it("A28: a huge message is cut with a mark", () => {
    const said = normalizeThrown(new Error("x".repeat(2_000_000)));
    expect(said.message).toHaveLength(FAILURE_MESSAGE_MAX);
    expect(said.message.endsWith("…")).toBe(true);
  });
});

describe("the errors of a turn", () => {
  it("keep the whole message, the limit, the iteration and the cause", () => {
    const cause = new Error("inner");
    const long = "y".repeat(50_000);
    const crash = new AgentCrashError(long, { cause });
    expect(crash).toBeInstanceOf(TurnqError);
    expect([crash.code, crash.message, crash.cause]).toEqual(["agent_crash", long, cause]);
    const timeout = new TurnTimeoutError(1500, { iteration: 3, cause });
    expect([timeout.code, timeout.timeoutMs, timeout.iteration, timeout.cause]).toEqual([
      "turn_timeout",
      1500,
      3,
      cause,
    ]);
    expect(timeout.message).toContain("1500 ms");
  });
});
