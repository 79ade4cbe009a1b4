import { createBullBoard } from "@bull-board/api";
import { BullMQAdapter } from "@bull-board/api/bullMQAdapter";
import { Queue } from "bullmq";
import { expect, test } from "vitest";
import { defineAgent } from "../../../src/agent/define-agent.ts";
import { scriptedAgent } from "../../../src/agents/scripted/scripted-agent.ts";
import { throwAwaySingle } from "../../redis.ts";
import { Gate, Scene, until } from "./scene.ts";

interface Route {
  readonly method: string | readonly string[];
  readonly route: string | readonly string[];
  readonly handler: (request: object) => Promise<{ readonly status?: number; readonly body: unknown }>;
}

interface ShownJob {
  readonly id: string;
  readonly name: string;
  readonly data: {
    readonly agent: string;
    readonly input: string;
    readonly session?: string;
    readonly crashed: readonly unknown[];
  };
  readonly progress: unknown;
  readonly returnValue: unknown;
  readonly failedReason?: string;
  readonly isFailed: boolean;
}

/** What bull-board's own API says of a queue: its server adapter, without a server. */
async function shownBy(queue: Queue, status: string): Promise<ShownJob[]> {
  let routes: readonly Route[] = [];
  let queues: unknown;
  const adapter = {
    setQueues(found: unknown) {
      queues = found;
      return adapter;
    },
    setApiRoutes(found: readonly Route[]) {
      routes = found;
      return adapter;
    },
    setViewsPath() {
      return adapter;
    },
    setStaticPath() {
      return adapter;
    },
    setEntryRoute() {
      return adapter;
    },
    setErrorHandler() {
      return adapter;
    },
    setUIConfig() {
      return adapter;
    },
  };
  createBullBoard({ queues: [new BullMQAdapter(queue)], serverAdapter: adapter as never });
  const list = routes.find(
    ({ route, method }) => [route].flat().includes("/api/queues") && [method].flat().includes("get"),
  );
  const answer = await list?.handler({
    queues,
    query: { activeQueue: queue.name, status, page: "1", jobsPerPage: "50" },
    params: {},
    body: {},
  });
  const body = answer?.body as { queues: { name: string; jobs: ShownJob[]; counts: Record<string, number> }[] };
  return body.queues[0]?.jobs ?? [];
}

test("bull-board, given only a queue's name and prefix, lists the jobs with agent, input, progress and return value", async () => {
  const server = await throwAwaySingle({ appendfsync: "no" });
  const scene = await Scene.open(server.url);
  const gate = new Gate();
  const connection = { url: server.url };
  // By hand, as the docs say it: nothing of turnq is needed.
  const queue = new Queue("shown", { connection, prefix: "{turnq:shown}" });
  try {
    const busy = defineAgent(
      "busy",
      async ({ emit }) => {
        emit.stepStart();
        emit.usage({ inputTokens: 5, outputTokens: 2 });
        emit.text("thinking");
        await gate.opened;
        return "answer";
      },
      { lane: "shown" },
    );
    await scene.worker([
      busy,
      scriptedAgent("falls", { script: [{ say: "half" }, { crash: "boom" }] }, { lane: "shown" }),
    ]);
    const turn = await scene.turnq.submit({ agent: "busy", input: "What is shown?", id: "t/1:x", session: "u42" });
    const fallen = await scene.turnq.submit({ agent: "falls", input: "fall", id: "t2", retry: { maxAttempts: 1 } });
    await fallen.result({ waitMs: 20_000 });
    await scene.told("shown", "t2");

    const [active] = await until(async () => {
      const jobs = await shownBy(queue, "active");
      return typeof jobs[0]?.progress === "object" ? jobs : undefined;
    }, "the progress on the board");
    expect(active).toMatchObject({
      name: "busy",
      data: { agent: "busy", input: "What is shown?", session: "u42" },
      progress: { attempt: 1, steps: 1, tokens: 7, last: "thinking" },
    });

    gate.open();
    const result = await turn.result({ waitMs: 20_000 });
    await scene.told("shown", "t/1+x");
    const [completed] = await shownBy(queue, "completed");
    expect(completed).toMatchObject({
      id: "t/1+x",
      name: "busy",
      isFailed: false,
      returnValue: JSON.parse(JSON.stringify(result)),
    });
    const [failed] = await shownBy(queue, "failed");
    expect(failed).toMatchObject({
      id: "t2",
      name: "falls",
      isFailed: true,
      failedReason: "boom",
      data: { input: "fall", crashed: [{ attempt: 1, output: "half" }] },
      returnValue: { ok: false, status: "crashed", turn: "t2" },
    });
    expect(await queue.getJobCounts()).toMatchObject({ active: 0, completed: 1, failed: 1, waiting: 0 });
  } finally {
    await queue.close();
    await scene.close();
    await server.stop();
  }
});
