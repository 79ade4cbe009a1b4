import { describe, expect, it, vi } from "vitest";
import { failure } from "../../../src/domain/failure.ts";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import { Agent, type TurnAnswer } from "../../../src/agent/agent.ts";
import { agentClassSpec } from "../../../src/agent/class-spec.ts";
import type { AgentFunction } from "../../../src/agent/define-agent.ts";
import { noopAgent } from "../../../src/agents/noop/noop-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { BOUND_MS, fn, never, scene } from "./attempt-scene.ts";

/** Emits and polls until it is told, then ends. */
const polite: AgentFunction = async ({ emit, shouldStop }) => {
  emit.text("so far");
  while (shouldStop() === undefined) await new Promise((resolve) => setImmediate(resolve));
};
/** Emits, opens a tool and never ends, whatever happens. */
const stubborn: AgentFunction = async ({ emit }) => {
  emit.text("half");
  emit.toolStart("look");
  return await never;
};

describe("runAttempt: ends of the agent's own", () => {
  it("a completed turn has the place of the attempt", async () => {
    const { record, stopReason } = await scene(fn(({ text }) => `You said ${text}`)).after(0);
    expect(record).toMatchObject({
      status: "completed",
      output: "You said hello",
      attempt: 2,
      iteration: 4,
      agent: "fn",
      crashed: false,
    });
    expect(stopReason).toBeUndefined();
  });

  it("C56: fifty calls that wait at once are no leak, and warn of none", async () => {
    const onWarning = vi.fn<() => void>();
    process.on("warning", onWarning);
    const many: AgentFunction = async ({ emit }) => {
      const calls = await Promise.all(Array.from({ length: 50 }, () => emit.call()));
      return String(calls.every(Boolean));
    };
    const stored = new Promise<boolean>((resolve) => setImmediate(() => resolve(true)));
    const onEvent = (event: EventBody): Promise<boolean> | undefined => {
      played.events.push(event);
      return event.type === "call_start" ? stored : undefined;
    };
    const played = scene(fn(many), {}, { onEvent });
    expect((await played.after(0)).record.output).toBe("true");
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", onWarning);
    expect(onWarning).not.toHaveBeenCalled();
  });

  it("the cheapest turn is two events", async () => {
    const { events, after } = scene(noopAgent());
    const { record } = await after(0);
    expect(events.map((event) => event.type)).toEqual(["agent_start", "agent_end"]);
    expect(record.usage).toEqual({ modelCalls: 0, toolCalls: 0, known: "reported" });
    expect(record.steps).toEqual([]);
  });

  it("a failure that the agent says is kept, and is no crash", async () => {
    const { record } = await scene(fn(() => ({ failure: failure("context_overflow", "too long") }))).after(0);
    expect(record).toMatchObject({
      status: "failed",
      crashed: false,
      failure: { code: "context_overflow", message: "too long" },
    });
  });

  it.each([
    ["an error", new Error("boom"), "boom"],
    ["null", null, "null was thrown"],
    ["a string", "boom", "boom"],
    ["undefined", undefined, "undefined was thrown"],
  ])("%s that is thrown is a crash with its partial", async (_name, thrown, message) => {
    const throwing: AgentFunction = ({ emit }) => {
      emit.text("half");
      emit.toolStart("look");
      // oxlint-disable-next-line typescript/only-throw-error -- agents throw anything
      throw thrown;
    };
    const { record } = await scene(fn(throwing)).after(0);
    expect(record).toMatchObject({
      status: "crashed",
      crashed: true,
      crashReason: message,
      output: "half",
      failure: { code: "agent_crash", message },
    });
    expect(record.steps[0]?.toolCalls[0]?.status).toBe("unresolved");
  });

  it("A28: two megabytes of error text are cut in record and events", async () => {
    const { events, after } = scene(scriptedAgent("s", { script: [{ crash: "e".repeat(2_000_000) }] }));
    const { record } = await after(0);
    expect(JSON.stringify(record).length + JSON.stringify(events).length).toBeLessThan(20_000);
  });

  it("a limit of the turn, counted over all attempts, is limit_reached and ok", async () => {
    const script = Array.from({ length: 9 }).flatMap(() => [
      { call: true as const },
      { say: "x" },
      { stepEnd: true },
      { poll: true as const },
    ]);
    const before = { steps: 3, toolCalls: 0, tokens: 0, costUsd: 0 };
    const { record, stopReason } = await scene(scriptedAgent("s", { script }), { maxSteps: 5 }, { before }).after(0);
    expect(record).toMatchObject({ status: "limit_reached", crashed: false });
    expect(record.steps).toHaveLength(2);
    expect(stopReason).toBe("max_steps");
  });

  it("C50: an agent that ends at the cooperative deadline is stopped_early", async () => {
    const { record, stopReason } = await scene(fn(polite), { timeoutMs: 1000 }).after(900);
    expect([record.status, record.crashed, stopReason]).toEqual(["stopped_early", false, "deadline"]);
  });
});

describe("runAttempt: deadline", () => {
  it("D05, invariant 9, hard deadline: an agent that never ends is a timeout within a bound, and is killed at once", async () => {
    const { clock, running, after } = scene(fn(stubborn), { timeoutMs: 2000 });
    let over = false;
    void running.done.then(() => (over = true));
    await clock.advance(1999);
    expect(over).toBe(false);
    const { record, stopReason } = await after(1 + BOUND_MS);
    expect(record).toMatchObject({ status: "timeout", crashed: true, output: "half", failure: { code: "timeout" } });
    expect(record.steps[0]?.toolCalls[0]?.status).toBe("unresolved");
    expect(stopReason).toBe("deadline");
    expect(record.durationMs).toBeLessThan(2000 + BOUND_MS);
  });

  it("holds for an agent that hangs in start", async () => {
    class Slow extends Agent<undefined> {
      override async start(): Promise<void> {
        await never;
      }
      protected override takeTurn(): Promise<TurnAnswer> {
        throw new Error("never reached");
      }
    }
    const { record } = await scene(agentClassSpec("slow", Slow, undefined), { timeoutMs: 100 }).after(100 + BOUND_MS);
    expect(record.status).toBe("timeout");
  });

  it("holds when the loop was blocked past it", async () => {
    const { clock, after } = scene(
      fn(() => {
        clock.block(5000);
        return "late";
      }),
      { timeoutMs: 1000 },
    );
    expect((await after(0)).record).toMatchObject({ status: "timeout", crashed: true });
  });

  it("C33: an answer after the end changes nothing, and its events are nobody's", async () => {
    let answer: (text: string) => void = () => undefined;
    const late = new Promise<string>((resolve) => (answer = resolve));
    let emitLate = (): void => undefined;
    const { events, running, after } = scene(
      fn(async ({ emit }) => {
        emitLate = () => emit.text("late");
        return await late;
      }),
      { timeoutMs: 100 },
    );
    const { record } = await after(100 + BOUND_MS);
    const count = events.length;
    emitLate();
    answer("late");
    expect((await running.done).record).toBe(record);
    expect(events).toHaveLength(count);
  });

  it("C54: a timeout inside the agent, the worker's and a crash are three failures", async () => {
    const inside = Object.assign(new Error("tool timed out"), { code: "agent_error" });
    const codes = [
      (await scene(scriptedAgent("s", { script: [{ hang: true }] }), { timeoutMs: 50 }).after(50 + BOUND_MS)).record
        .failure?.code,
      (await scene(scriptedAgent("s", { script: [{ crash: "x" }] })).after(0)).record.failure?.code,
      (
        await scene(
          fn(() => {
            throw inside;
          }),
        ).after(0)
      ).record.failure?.code,
    ];
    expect(codes).toEqual(["timeout", "agent_crash", "agent_error"]);
  });
});

describe("runAttempt: stop and kill", () => {
  it.each([
    ["cancelled", "cancelled", "cancelled"],
    ["shutdown", "interrupted", "interrupted"],
    ["lease_lost", "lost", "worker_lost"],
  ] as const)("stop(%s): one that ends by itself is %s, not crashed", async (reason, status, code) => {
    const { clock, running, after } = scene(fn(polite));
    await clock.advance(10);
    running.stop(reason);
    running.stop("shutdown");
    const { record, stopReason } = await after(0);
    expect(record).toMatchObject({ status, crashed: false, output: "so far", failure: { code } });
    expect(stopReason).toBe(reason);
  });

  it.each([
    ["cancelled", "cancelled", "turn cancelled"],
    ["shutdown", "interrupted", "the worker was shut down"],
    ["lease_lost", "lost", "the worker lost its lease on the turn"],
  ] as const)("stop(%s): one that does not is killed after the grace: %s, crashed", async (reason, status, why) => {
    const { clock, running, after } = scene(fn(stubborn), { graceMs: 500 });
    let over = false;
    void running.done.then(() => (over = true));
    await clock.advance(10);
    running.stop(reason);
    await clock.advance(499);
    expect(over).toBe(false);
    const { record } = await after(1 + BOUND_MS);
    expect(record).toMatchObject({ status, crashed: true, crashReason: why, output: "half" });
  });

  it("kill does not wait for the grace, and twice is once", async () => {
    const { clock, running, after } = scene(fn(stubborn), { graceMs: 60_000, timeoutMs: 600_000 });
    await clock.advance(10);
    running.kill("cancelled");
    running.kill("shutdown");
    const { record } = await after(BOUND_MS);
    expect(record).toMatchObject({ status: "cancelled", crashed: true, crashReason: "turn cancelled" });
    running.kill("cancelled");
    running.stop("cancelled");
  });

  it("kill before the agent has begun", async () => {
    const { running, after } = scene(fn(polite));
    running.kill("shutdown");
    expect((await after(BOUND_MS)).record.status).toBe("interrupted");
  });

  it("an agent that had its whole answer when the shutdown came is completed", async () => {
    const { clock, running, after } = scene(
      fn(async ({ signal }) => {
        await new Promise<void>((resolve) => clock.setTimer(100, resolve));
        return signal.aborted ? "aborted" : "whole";
      }),
    );
    await clock.advance(10);
    running.stop("shutdown");
    const { record, stopReason } = await after(100);
    expect(record).toMatchObject({ status: "completed", crashed: false, output: "whole" });
    expect(stopReason).toBeUndefined();
  });

  it("a function that was told and says that its answer is whole is completed", async () => {
    const { clock, running, after } = scene(
      fn(async ({ shouldStop }) => {
        while (shouldStop() === undefined) await new Promise((resolve) => setImmediate(resolve));
        return { output: "whole", stopped: false };
      }),
    );
    await clock.advance(1);
    running.stop("shutdown");
    expect((await after(0)).record.status).toBe("completed");
  });

  it("an error while tearing down after the stop is no crash", async () => {
    const { clock, running, after } = scene(
      fn(async (call) => {
        await polite(call);
        throw new Error("teardown");
      }),
    );
    await clock.advance(1);
    running.stop("cancelled");
    expect((await after(0)).record).toMatchObject({ status: "cancelled", crashed: false, output: "so far" });
  });
});

describe("runAttempt: what an agent may not say", () => {
  it.each(["shutdown", "lease_lost", "cancelled"] as const)(
    "an agent that stops for a %s that nobody asked for has failed, and is not tried again without end",
    async (reason) => {
      const { record } = await scene(scriptedAgent("s", { script: [{ say: "so far" }, { stop: reason }] })).after(0);
      expect(record).toMatchObject({
        status: "failed",
        output: "so far",
        failure: { code: "agent_error", retryable: false },
      });
    },
  );
});

describe("runAttempt: the limit of a transcript", () => {
  it("C42: holds for tools, plans and the number of events of an agent in this process, and for its own output", async () => {
    const { record, events } = await (() => {
      const wild = scene(
        fn(({ emit }) => {
          for (let n = 0; n < 12; n += 1) {
            const id = emit.toolStart("t", "a".repeat(500_000));
            emit.toolEnd(id, "r".repeat(500_000));
            emit.plan([{ text: "p".repeat(500_000), status: "pending" }]);
            void emit.call();
            emit.stepEnd({ program: "x".repeat(500_000) });
          }
          for (let n = 0; n < 50_000; n += 1) {
            emit.thought("t");
            emit.text("t");
          }
          return "o".repeat(9_000_000);
        }),
      );
      return wild.after(0).then(({ record: made }) => ({ record: made, events: wild.events }));
    })();
    const before = events.filter(({ type }) => type !== "agent_end");
    expect(JSON.stringify(before).length).toBeLessThan(17e6);
    expect(before.length).toBeLessThan(90_000);
    expect(record.output.length).toBeLessThan(8.5e6);
    expect(record.output).toContain("[cut:");
    expect(record.usage).toMatchObject({ toolCalls: 12, modelCalls: 12 });
    expect(JSON.stringify(record.steps).length).toBeLessThan(17e6);
  });
});
