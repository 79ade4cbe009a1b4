import { getEventListeners } from "node:events";
import { delimiter } from "node:path";
import { describe, expect, it } from "vitest";
import { failure } from "../../../src/domain/failure.ts";
import type { EventBody } from "../../../src/domain/turn-event.ts";
import type { TurnRecord } from "../../../src/domain/turn-record.ts";
import { NO_USAGE } from "../../../src/domain/usage.ts";
import { Agent, type AgentInit, type CommunicateOptions, type TurnAnswer } from "../../../src/agent/agent.ts";
import { isAgentClass } from "../../../src/agent/class-spec.ts";
import { eventFaults } from "../../../src/agent/closed-events.ts";
import type { EventCollector } from "../../../src/agent/event-collector.ts";
import { KILL_SETTLE_MS, type AgentTurn } from "../../../src/agent/ongoing-turn.ts";
import { TurnTimeoutError } from "../../../src/agent/turn-errors.ts";
import { FakeClock, attemptInit, startOptions } from "../../agents.ts";

type Work = (turn: AgentTurn, agent: TestAgent) => Promise<TurnAnswer | undefined | void>;

class TestAgent extends Agent<Work> {
  static override readonly supportsCooperativeStop = true;
  kills = 0;

  override killSync(): void {
    this.kills += 1;
    super.killSync();
  }

  override getEnvironmentInfo(): { [key: string]: string } {
    return { model: "test" };
  }

  get env(): Readonly<Record<string, string>> {
    return this.environment;
  }

  stopNow(...reason: Parameters<Agent["markStopped"]>): void {
    this.markStopped(...reason);
  }

  capture(collector: EventCollector): TurnRecord | undefined {
    this.capturePartialTurn(collector);
    return this.pendingTurn;
  }

  protected override async takeTurn(turn: AgentTurn): Promise<TurnAnswer | undefined | void> {
    return await this.config(turn, this);
  }
}

class TokenAgent extends TestAgent {
  static override readonly reportsTokens = true;
  static override readonly supportsCostLogTags = true;
}

interface Scene {
  readonly agent: TestAgent;
  readonly clock: FakeClock;
  readonly events: EventBody[];
  readonly communicate: (options?: CommunicateOptions) => Promise<TurnRecord>;
}

async function scene(
  work: Work,
  init: Partial<AgentInit> = {},
  AgentClass: typeof TestAgent = TestAgent,
): Promise<Scene> {
  const clock = new FakeClock();
  const agent = new AgentClass({ ...attemptInit(), name: "me", config: work, clock, ...init } as AgentInit<Work>);
  const events: EventBody[] = [];
  await agent.start(startOptions());
  const communicate = (options: CommunicateOptions = {}): Promise<TurnRecord> =>
    agent.communicate("hello", { onEvent: (event) => void events.push(event), ...options });
  return { agent, clock, events, communicate };
}

/** What a promise rejects with, watched from the start. */
async function thrownBy(promise: Promise<unknown>): Promise<unknown> {
  try {
    return { resolved: await promise };
  } catch (thrown) {
    return thrown;
  }
}

const never = new Promise<never>(() => undefined);
const sayHi: Work = async (turn) => turn.emit({ type: "text_delta", text: "hi" });

describe("Agent: state", () => {
  it("goes from idle over working to idle, and is finished after stop", async () => {
    const seen: string[] = [];
    const { agent, communicate } = await scene(async (turn, self) => {
      seen.push(self.getState());
      await sayHi(turn, self);
    });
    expect(agent.getState()).toBe("idle");
    await communicate();
    seen.push(agent.getState());
    await agent.stop();
    expect([...seen, agent.getState()]).toEqual(["working", "idle", "finished"]);
  });

  it("takes one turn at a time", async () => {
    const { agent, clock, communicate } = await scene(async () => await never);
    const first = thrownBy(communicate());
    await expect(communicate()).rejects.toMatchObject({ code: "unsupported" });
    agent.killSync();
    await clock.advance(KILL_SETTLE_MS);
    expect(await first).toMatchObject({ code: "agent_crash" });
  });

  it("has the session's number of the turn", async () => {
    const { agent, communicate } = await scene(
      async () => {
        throw new Error("no");
      },
      { iteration: 7 },
    );
    expect(agent.iteration).toBe(6);
    await expect(communicate()).rejects.toThrow("no");
    expect(agent.iteration).toBe(7);
    agent.discardPendingTurn();
    agent.discardPendingTurn();
    expect(agent.iteration).toBe(6);
  });

  it("a turn that said that it failed does not use up an iteration either", async () => {
    const { agent, communicate } = await scene(async () => ({ failure: failure("auth", "401") }));
    const record = await communicate();
    expect(record).toMatchObject({ status: "failed", crashed: false, failure: { code: "auth" } });
    expect([agent.getState(), agent.iteration, agent.pendingTurn]).toEqual(["error", 1, undefined]);
    agent.discardPendingTurn();
    expect(agent.iteration).toBe(0);
  });
});

describe("Agent: the answer", () => {
  it("merges the environment and the options of the request", async () => {
    const { agent, communicate } = await scene(sayHi, { options: { model: "m" } });
    expect(agent.getSdkOptions()).toEqual({ model: "m" });
    expect((await communicate()).environment).toEqual({ model: "test" });
  });

  it("tells in its events what an answer says beyond them", async () => {
    const { events, communicate } = await scene(async (turn) => {
      turn.emit({ type: "text_delta", text: "Hel" });
      return { output: "Hello" };
    });
    const record = await communicate();
    expect(record.output).toBe("Hello");
    expect(record.messages.at(-1)?.content).toBe("Hello");
    expect(events.flatMap((event) => (event.type === "text_delta" ? [event.text] : []))).toEqual(["Hel", "lo"]);
    expect(record.steps).toHaveLength(1);
  });

  it("an answer other than what was said becomes a step of its own", async () => {
    const { communicate } = await scene(async (turn) => {
      turn.emit({ type: "text_delta", text: "a draft" });
      return { output: "the answer" };
    });
    const record = await communicate();
    expect(record.messages.map((message) => message.content)).toEqual(["hello", "a draft", "the answer"]);
    expect(record.output).toBe("the answer");
  });

  it("an end without an answer and without an event is a crash: success is not what is left over", async () => {
    const { agent, communicate } = await scene(async () => undefined);
    await expect(communicate()).rejects.toThrow("without an answer");
    expect(agent.pendingTurn).toMatchObject({ status: "crashed", crashed: true });
  });

  it("a step without tokens, of a class that reports tokens, is a crash", async () => {
    const without = await scene(sayHi, {}, TokenAgent);
    await expect(without.communicate()).rejects.toThrow("without any tokens");
    const withThem = await scene(
      async (turn, self) => {
        await sayHi(turn, self);
        turn.emit({ type: "usage", usage: { ...NO_USAGE, outputTokens: 1 } });
      },
      {},
      TokenAgent,
    );
    expect((await withThem.communicate()).status).toBe("completed");
  });

  it("A26: an event that JSON cannot carry costs nothing", async () => {
    const { communicate } = await scene(async (turn) => {
      turn.emit({ type: "tool_start", id: "a", name: "x", args: { big: 1n } as never });
      turn.emit({ type: "tool_end", id: "a", status: "ok", result: new Map([["k", Symbol("s")]]) as never });
      turn.emit({ type: "banana" } as never);
      return { output: "done\u0000" };
    });
    const record = await communicate();
    expect(record.status).toBe("completed");
    expect(JSON.parse(JSON.stringify(record))).toEqual(record);
  });
});

describe("Agent: stop", () => {
  it("asks until an answer comes, and the answer stays", async () => {
    const answers = [undefined, "cancelled", undefined] as const;
    let asked = 0;
    const { communicate } = await scene(async (turn, self) => {
      expect(turn.shouldStop()).toBeUndefined();
      expect([turn.shouldStop(), turn.shouldStop()]).toEqual(["cancelled", "cancelled"]);
      self.stopNow();
      return { output: "so far" };
    });
    const record = await communicate({ shouldStop: () => answers[asked++] });
    expect(record).toMatchObject({ status: "cancelled", crashed: false, output: "so far" });
    expect(asked).toBe(2);
  });

  it("a shouldStop that throws is no stop", async () => {
    const { communicate } = await scene(async (turn) => ({ output: String(turn.shouldStop()) }));
    const shouldStop = (): never => {
      throw new Error("a bug");
    };
    expect((await communicate({ shouldStop })).output).toBe("undefined");
  });

  it("an exception while tearing down after a deliberate stop is not a crash", async () => {
    const { agent, communicate } = await scene(async (turn, self) => {
      await sayHi(turn, self);
      self.stopNow("criterion");
      throw new Error("teardown");
    });
    expect(await communicate()).toMatchObject({ status: "stopped_early", crashed: false, output: "hi" });
    expect(agent.pendingTurn).toBeUndefined();
  });

  it("maxSteps of the call answers max_steps when that many steps have ended", async () => {
    const { communicate } = await scene(async (turn, self) => {
      while (turn.shouldStop() === undefined) {
        await sayHi(turn, self);
        turn.endStep(true);
      }
      self.stopNow();
    });
    const record = await communicate({ maxSteps: 3 });
    expect(record.status).toBe("limit_reached");
    expect(record.steps).toHaveLength(3);
  });
});

describe("Agent: deadline, kill, abort", () => {
  it("at the deadline it kills, gives the work a moment, and throws with the record parked", async () => {
    const { agent, clock, events, communicate } = await scene(async (turn) => {
      turn.emit({ type: "tool_start", id: "t", name: "look", args: {} });
      await never;
    });
    const turn = communicate({ timeoutMs: 1000 });
    const thrown = thrownBy(turn);
    await clock.advance(999);
    expect(agent.kills).toBe(0);
    await clock.advance(1);
    expect(agent.kills).toBe(1);
    await clock.advance(KILL_SETTLE_MS);
    expect(await thrown).toMatchObject({ code: "turn_timeout", timeoutMs: 1000, iteration: 1 });
    expect(agent.pendingTurn).toMatchObject({ status: "timeout", crashed: true, failure: { code: "timeout" } });
    expect(eventFaults(events)).toEqual([]);
    expect(clock.pending).toBe(0);
  });

  it("the last words after a kill are in the record, those after its end are not", async () => {
    let late: (() => void) | undefined;
    const { agent, clock, events, communicate } = await scene(async (turn) => {
      await new Promise((resolve) => turn.signal.addEventListener("abort", resolve));
      turn.emit({ type: "text_delta", text: "last words" });
      late = () => turn.emit({ type: "text_delta", text: "too late" });
    });
    const thrown = thrownBy(communicate({ timeoutMs: 10 }));
    await clock.advance(10);
    expect(await thrown).toMatchObject({ code: "turn_timeout" });
    late?.();
    expect(agent.pendingTurn?.output).toBe("last words");
    expect(events.at(-1)?.type).toBe("agent_end");
  });

  it("a deadline that passed while the loop was blocked holds, although its timer had no chance", async () => {
    const { agent, clock, communicate } = await scene(async () => {
      clock.block(5000);
      return { output: "late" };
    });
    await expect(communicate({ timeoutMs: 1000 })).rejects.toMatchObject({ code: "turn_timeout" });
    expect(agent.pendingTurn?.status).toBe("timeout");
  });

  it("C48: a deadline in 30 days is no deadline now", async () => {
    const { clock, communicate } = await scene(async (turn) => {
      await clock.advance(86_400_000);
      return { output: String(turn.signal.aborted) };
    });
    expect((await communicate({ timeoutMs: 30 * 86_400_000 })).output).toBe("false");
    expect(clock.pending).toBe(0);
  });

  it("an abort with a TurnTimeoutError is a timeout, any other a cancel; one from before counts", async () => {
    const first = await scene(async () => await never);
    const thrown = thrownBy(first.communicate({ signal: AbortSignal.abort(new TurnTimeoutError(5)) }));
    await first.clock.advance(KILL_SETTLE_MS);
    expect(await thrown).toMatchObject({ code: "turn_timeout" });
    let ran = false;
    const second = await scene(async () => {
      ran = true;
    });
    const record = await second.communicate({ signal: AbortSignal.abort() });
    expect(record).toMatchObject({ status: "cancelled", crashed: true, crashReason: "turn cancelled" });
    expect(ran).toBe(false);
    expect(eventFaults(second.events)).toEqual([]);
    expect(second.agent.iteration).toBe(1);
    second.agent.discardPendingTurn();
    expect(second.agent.iteration).toBe(0);
  });

  it("C56: leaves no listener on a signal that outlives the turn", async () => {
    const { communicate } = await scene(sayHi);
    const { signal } = new AbortController();
    for (let n = 0; n < 20; n += 1) await communicate({ signal });
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });

  it("A28: a crash keeps the whole message in the error and a short one in the record", async () => {
    const message = "m".repeat(100_000);
    const { agent, communicate } = await scene(async () => {
      throw new Error(message);
    });
    await expect(communicate()).rejects.toMatchObject({ code: "agent_crash", message });
    expect(agent.pendingTurn?.crashReason).toHaveLength(200);
    expect(JSON.stringify(agent.pendingTurn).length).toBeLessThan(10_000);
  });

  it("a partial that cannot be built is no second error", async () => {
    class Unbuildable extends TestAgent {
      protected override buildRecord(): never {
        throw new Error("second");
      }
    }
    const { agent, events, communicate } = await scene(
      async (turn, self) => {
        expect(self.capture(turn.collector)).toBeUndefined();
        throw new Error("first");
      },
      {},
      Unbuildable,
    );
    await expect(communicate()).rejects.toThrow("first");
    expect(agent.pendingTurn).toBeUndefined();
    expect(eventFaults(events)).toEqual([]);
    agent.discardPendingTurn();
    expect(agent.iteration).toBe(0);
  });

  it("a listener that throws does not hurt the turn", async () => {
    const { communicate } = await scene(sayHi);
    const onEvent = (): never => {
      throw new Error("a bug");
    };
    expect((await communicate({ onEvent })).status).toBe("completed");
  });
});

describe("Agent: what it is made with", () => {
  it("gives its programs the environment, PATH with what comes first, the mark; an external PLUGIN_TOOLS_DIR wins", async () => {
    const { agent } = await scene(sayHi, { mark: "s/l/t/1/w" });
    await agent.start(
      startOptions({ envPathPrepend: ["/tools", "/more"], pluginToolsDir: "/own", env: { PATH: "/bin", A: "1" } }),
    );
    expect(agent.env).toEqual({
      A: "1",
      PATH: ["/tools", "/more", "/bin"].join(delimiter),
      PLUGIN_TOOLS_DIR: "/own",
      TURNQ_TURN: "s/l/t/1/w",
    });
    await agent.start(startOptions({ pluginToolsDir: "/own", env: { PLUGIN_TOOLS_DIR: "/external" } }));
    expect(agent.env["PLUGIN_TOOLS_DIR"]).toBe("/external");
  });

  it("costLogTags go only to a class that takes them, and wrong ones are loud", async () => {
    const tags = { turn: "t1", attempt: 1, agent: "me" };
    await expect(scene(sayHi, { costLogTags: tags })).rejects.toMatchObject({ code: "unsupported" });
    await expect(scene(sayHi, { costLogTags: tags }, TokenAgent)).resolves.toBeDefined();
    await expect(scene(sayHi, { costLogTags: { ...tags, turn: "t2" } }, TokenAgent)).rejects.toMatchObject({
      code: "config",
    });
  });

  it("a class is known as one, also of another copy of the package", () => {
    expect(isAgentClass(TestAgent)).toBe(true);
    expect(isAgentClass(class Other {})).toBe(false);
    expect(isAgentClass(undefined)).toBe(false);
  });
});
