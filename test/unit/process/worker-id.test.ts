import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { workerId, workerLiveness } from "../../../src/process/worker-id.ts";

describe("a worker's id", () => {
  it("is one of its own each time, and can stand in a mark or a key", () => {
    expect(workerId()).not.toBe(workerId());
    expect(workerId()).toMatch(/^[A-Za-z0-9-]+\.\d+\.[0-9a-z]+\.[0-9a-f]{8}$/);
  });

  it("tells whether the worker lives", async () => {
    expect(workerLiveness(workerId())).toBe("alive");
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
    await once(child, "spawn");
    const id = workerId(child.pid);
    expect(workerLiveness(id)).toBe("alive");
    child.kill("SIGKILL");
    await once(child, "exit");
    expect(workerLiveness(id)).toBe("dead");
  });

  it("is not fooled by another process that got the same pid, nor by another machine", () => {
    const [machine, pid, , random] = workerId().split(".");
    expect(workerLiveness([machine, pid, "1", random].join("."))).toBe("dead");
    expect(workerLiveness(["other", pid, "1", random].join("."))).toBe("elsewhere");
    for (const text of ["", "x", `${machine ?? ""}.abc.1.2`]) expect(workerLiveness(text)).toBe("elsewhere");
    expect(workerLiveness("other.1.1.1")).toBe("elsewhere");
  });
});
