import { describe, expect, it } from "vitest";
import { normalizeThrown } from "../../../src/agent/turn-errors.ts";
import { endText, startFailure } from "../../../src/process/process-failure.ts";

describe("a start that failed", () => {
  it.each(["EMFILE", "ENFILE", "EAGAIN", "ENOMEM"])("C12: %s is the machine's, and worth another try", (code) => {
    const error = startFailure("node", Object.assign(new Error("spawn"), { code }));
    expect(normalizeThrown(error)).toMatchObject({
      code: "internal",
      retryable: true,
      message: expect.stringContaining(code) as string,
    });
  });

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
