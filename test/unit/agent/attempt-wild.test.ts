import { describe, expect, it } from "vitest";
import type { TurnRecord } from "../../../src/domain/turn-record.ts";
import { Agent, type AgentInit, type TurnAnswer } from "../../../src/agent/agent.ts";
import type { AgentSpec, AttemptInit } from "../../../src/agent/agent-spec.ts";
import { agentClassSpec } from "../../../src/agent/class-spec.ts";
import type { AgentTurn } from "../../../src/agent/ongoing-turn.ts";
import { defineAgent, specOf, type AgentFunction } from "../../../src/agent/define-agent.ts";
import { noopAgent } from "../../../src/agents/noop/noop-agent.ts";
import { FakeClock, storedRequest } from "../../agents.ts";
import { BOUND_MS, fn, never, scene } from "./attempt-scene.ts";

/** Keeps no contract at all: whatever a case makes of it. */
class Wild extends Agent<Partial<Agent>> {
  constructor(init: AgentInit<Partial<Agent>>) {
    super(init);
    Object.assign(this, init.config);
  }
  protected override takeTurn(_turn: AgentTurn): Promise<TurnAnswer> {
    return Promise.resolve({ output: "fine" });
  }
}

describe("runAttempt: agents that keep no contract", () => {
  const wild = (config: Partial<Agent>): AgentSpec => agentClassSpec("wild", Wild, config);
  const throwing = (): never => {
    throw new Error("wild");
  };

  it.each([
    ["gives no record", wild({ communicate: async () => undefined as never }), "crashed"],
    ["gives garbage", wild({ communicate: async () => ({ v: 1, status: "completed" }) as never }), "crashed"],
    ["throws without a partial", wild({ communicate: async () => throwing() }), "crashed"],
    ["throws at once", wild({ communicate: throwing }), "crashed"],
    ["throws in start", wild({ start: throwing }), "crashed"],
    ["throws in killSync", wild({ killSync: throwing }), "completed"],
    ["throws in stop", wild({ stop: throwing }), "completed"],
    ["rejects in stop and kill", wild({ stop: async () => throwing(), kill: async () => throwing() }), "completed"],
    ["C24: has answered and never ends its stop", wild({ stop: async () => await never }), "completed"],
    [
      "never ends its stop and its kill",
      wild({ stop: async () => await never, kill: async () => await never }),
      "completed",
    ],
    ["cannot be made", { ...wild({}), create: throwing }, "crashed"],
    ["is not configured", { ...wild({}), create: () => raise("config") }, "failed"],
  ] as const)("%s", async (_name, spec, status) => {
    const { record } = await scene(spec).after(BOUND_MS);
    expect(record.status).toBe(status);
    if (status === "completed") expect(record.output).toBe("fine");
  });

  it("a record of someone else is put in this attempt's place, and its messages are made valid", async () => {
    const other = (await scene(fn(({ emit }) => (emit.toolStart("look"), "x"))).after(0)).record;
    const foreign = structuredClone({ ...other, attempt: 99, agent: "other" });
    foreign.messages.push({ role: "assistant", content: "", toolCalls: [{ id: "dangling", name: "x", args: {} }] });
    const { record } = await scene(wild({ communicate: async () => foreign })).after(BOUND_MS);
    expect(record).toMatchObject({ attempt: 2, agent: "wild", output: "x" });
    expect(JSON.stringify(record.messages)).not.toContain("dangling");
  });

  it("a deadline that passed while it blocked the loop holds", async () => {
    const clock = new FakeClock();
    const whole = (await scene(fn(() => "x")).after(0)).record;
    const communicate = async (): Promise<TurnRecord> => {
      clock.block(60_000);
      return whole;
    };
    const { running } = scene(wild({ communicate }), {}, { clock });
    await clock.advance(BOUND_MS);
    expect((await running.done).record).toMatchObject({ status: "timeout", crashed: true, output: "x" });
  });

  it("events that are left open are closed, and strange ones dropped", async () => {
    const communicate: Agent["communicate"] = async (_input, options) => {
      void options?.onEvent?.({ type: "tool_start", id: "a", name: "x", args: {} });
      void options?.onEvent?.({ type: "rolled_back", reason: "x" });
      void options?.onEvent?.(null as never);
      throw new Error("wild");
    };
    const { events, after } = scene(wild({ communicate }));
    const { record } = await after(BOUND_MS);
    expect(record.steps[0]?.toolCalls[0]?.status).toBe("unresolved");
    expect(events.map((event) => event.type)).toEqual([
      "agent_start",
      "step_start",
      "tool_start",
      "tool_end",
      "step_end",
      "agent_end",
    ]);
  });

  it("its pending turn is read and then discarded", async () => {
    let discarded = 0;
    class Failing extends Agent<undefined> {
      override discardPendingTurn(): void {
        if (this.pendingTurn?.crashed === true) discarded += 1;
        super.discardPendingTurn();
      }
      protected override takeTurn(): Promise<TurnAnswer> {
        throw new Error("no");
      }
    }
    await scene(agentClassSpec("f", Failing, undefined)).after(0);
    expect(discarded).toBe(1);
  });
});

describe("runAttempt: what the agent is given", () => {
  it("its place, a key that all attempts share, and tags only where its class takes them", async () => {
    const inits: AttemptInit[] = [];
    const spec = noopAgent();
    const seen = (wantsCostLogTags: boolean): AgentSpec => ({
      ...spec,
      wantsCostLogTags,
      create: (init) => {
        inits.push(init);
        return spec.create({ ...init, costLogTags: undefined });
      },
    });
    const request = storedRequest({
      batch: { id: "b", sample: "s", epoch: 1 },
      options: { model: "m" },
      metadata: { k: 1 },
    });
    await scene(seen(false), {}, { request, mark: "a/b" }).after(0);
    await scene(seen(true), {}, { request, attempt: 3 }).after(0);
    expect(inits[0]).toMatchObject({
      turn: "t1",
      attempt: 2,
      iteration: 4,
      idempotencyKey: "t1~1",
      mark: "a/b",
      options: { model: "m" },
    });
    expect(inits[0]).not.toHaveProperty("costLogTags");
    expect(inits[1]).toMatchObject({
      idempotencyKey: "t1~1",
      costLogTags: { turn: "t1", attempt: 3, batch: "b", agent: "noop" },
    });
  });

  describe("U12: the turn's metadata where it asks for it, and nowhere else", () => {
    const request = storedRequest({ metadata: { k: 1 } });
    const shown = async (spec: AgentSpec): Promise<unknown> =>
      JSON.parse((await scene(spec, {}, { request }).after(0)).record.output);
    class Showing extends Agent {
      protected override takeTurn(turn: AgentTurn): Promise<TurnAnswer> {
        const { metadata } = this.init;
        return Promise.resolve({ output: JSON.stringify([metadata ?? null, turn.metadata ?? null]) });
      }
    }
    class Asking extends Showing {
      static override readonly wantsMetadata = true;
    }
    const show: AgentFunction = (call) => JSON.stringify("metadata" in call ? call.metadata : null);

    it("a function", async () => {
      expect(await shown(specOf(defineAgent("a", show)))).toBeNull();
      expect(await shown(specOf(defineAgent("a", show, { metadata: true })))).toEqual({ k: 1 });
      expect(await shown(specOf(defineAgent("a", show, { metadata: true }), { metadata: false }))).toBeNull();
    });

    it("a class", async () => {
      expect(await shown(agentClassSpec("a", Showing, undefined))).toEqual([null, null]);
      expect(await shown(agentClassSpec("a", Showing, undefined, { metadata: true }))).toEqual([{ k: 1 }, { k: 1 }]);
      expect(await shown(agentClassSpec("a", Asking, undefined))).toEqual([{ k: 1 }, { k: 1 }]);
      expect(await shown(agentClassSpec("a", Asking, undefined, { metadata: false }))).toEqual([null, null]);
    });

    it("an attempt without any", async () => {
      const asked = specOf(defineAgent("a", show, { metadata: true }));
      expect((await scene(asked).after(0)).record.output).toBe("null");
    });
  });

  it("the history of the session", async () => {
    const history = [{ role: "user" as const, content: "before" }];
    const { record } = await scene(
      fn(({ history: given }) => JSON.stringify(given)),
      {},
      { history },
    ).after(0);
    expect(JSON.parse(record.output)).toEqual(history);
    expect(record.messages[0]?.content).toBe("hello");
  });

  it("a listener of the worker that throws does not hurt the attempt", async () => {
    const clock = new FakeClock();
    const onEvent = (): never => {
      throw new Error("a bug");
    };
    const { running } = scene(
      fn(() => "x"),
      {},
      { onEvent, clock },
    );
    await clock.advance(0);
    expect((await running.done).record.status).toBe("completed");
  });
});

function raise(code: string): never {
  throw Object.assign(new Error("bad config"), { code });
}
