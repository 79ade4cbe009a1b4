import { describe, expect, it } from "vitest";
import { FAILURE_POLICY } from "../../../src/domain/failure.ts";
import { normalizeThrown } from "../../../src/agent/turn-errors.ts";
import { endText, startFailure } from "../../../src/process/process-failure.ts";

describe("a start that failed", () => {
  it.each(["EMFILE", "ENFILE", "EAGAIN", "ENOMEM"])(
    "C12: %s is the machine's: it spends nothing, and the turn comes again when the gate opens",
    (code) => {
      const error = startFailure("node", Object.assign(new Error("spawn"), { code }));
      expect(normalizeThrown(error)).toMatchObject({
        code: "overloaded",
        retryable: true,
        message: expect.stringContaining(code) as string,
      });
      expect(FAILURE_POLICY.overloaded).toEqual({ spends: "nothing", then: "gate" });
    },
  );

  it("else is a wrong config", () => {
    const error = startFailure("prog", Object.assign(new Error("spawn"), { code: "EACCES" }));
    expect(normalizeThrown(error)).toMatchObject({
      code: "config",
      retryable: false,
      message: "cannot start prog (EACCES)",
    });
  });
});

describe("C23: the end of a process, in words", () => {
  it("names a signal, and never takes a missing code for 0", () => {
    expect(endText({ code: 0, signal: null })).toBe("exited with code 0");
    expect(endText({ code: null, signal: "SIGKILL" })).toBe("was killed by SIGKILL (maybe out of memory)");
    expect(endText({ code: null, signal: "SIGSEGV" })).toBe("was killed by SIGSEGV");
    expect(endText({ code: null, signal: null })).toBe("exited with code unknown");
  });
});
