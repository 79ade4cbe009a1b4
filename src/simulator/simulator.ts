import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { getRequestListener, type HttpBindings } from "@hono/node-server";
import { RESPONSE_ALREADY_SENT } from "@hono/node-server/utils/response";
import { Hono, type Context } from "hono";
import { TurnqError, messageOf } from "../domain/error.ts";
import { TIMER_MAX_MS } from "../domain/limits.ts";
import type { Answers } from "./answers.ts";
import { ChatRequest } from "./chat-request.ts";
import { chunksOf, completionJson, errorJson, type Chunks, type CompletionHead } from "./completion-json.ts";
import type { ModelSettings } from "./model-settings.ts";
import { RateLimit } from "./rate-limit.ts";
import { ServedCount, type Served } from "./served.ts";
import { SimulatedModel, type Reply } from "./simulated-model.ts";

export interface SimulatorOptions {
  /** The models by name; a request for another one is a 404. */
  readonly models: Readonly<Record<string, ModelSettings>>;
  readonly answers: Answers;
  /** 0: a free one. */
  readonly port: number;
  /** Where to listen; the loopback address unless given. */
  readonly host?: string | undefined;
}

export interface RunningSimulator {
  /** Where it listens, without `/v1`. */
  readonly url: string;
  readonly served: () => Served;
  /** Ends it at once, hung requests too. */
  readonly close: () => Promise<void>;
}

/** Hono on Node: the plain response is there, to cut it off. */
type Bindings = { Bindings: HttpBindings };
type Outgoing = HttpBindings["outgoing"];
type Answer = Extract<Reply, { kind: "answer" }>;

/** What a refused request may come back after, in seconds, where no limit says it. */
const RETRY_AFTER_S = 1;

/** Starts an OpenAI-compatible model server that is a simulation. Throws `config` when the port is taken. */
export async function startSimulator(options: SimulatorOptions): Promise<RunningSimulator> {
  const count = new ServedCount();
  const closing = new AbortController();
  const app = appOf(options, count, closing.signal);
  const answer = getRequestListener(app.fetch);
  const server = createServer((request, response) => void answer(request, response));
  const host = options.host ?? "127.0.0.1";
  await listen(server, options.port, host);
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : options.port;
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    served: () => structuredClone(count.total),
    close: async () => {
      closing.abort();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

async function listen(server: Server, port: number, host: string): Promise<void> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, host, resolve);
    });
  } catch (error) {
    throw new TurnqError("config", `cannot listen on ${host} port ${port}: ${messageOf(error)}`, {
      where: "--port",
      hint: "Leave the port out, and a free one is taken.",
      cause: error,
    });
  }
}

function appOf(options: SimulatorOptions, count: ServedCount, closing: AbortSignal): Hono<Bindings> {
  const models = new Map(
    Object.entries(options.models).map(([name, settings]) => [
      name,
      new ServedModel(name, settings, options, count, closing),
    ]),
  );
  const app = new Hono<Bindings>();
  app.get("/served", (c) => c.json({ simulated: true, ...count.total, byModel: Object.fromEntries(count.byModel) }));
  app.get("/v1/models", (c) =>
    c.json({
      object: "list",
      data: [...models.keys()].map((id) => ({ id, object: "model", owned_by: "turnq-simulator" })),
    }),
  );
  app.post("/v1/chat/completions", async (c) => {
    const parsed = ChatRequest.safeParse(await c.req.json().catch(() => undefined));
    if (!parsed.success) return c.json(errorJson(400, parsed.error.issues[0]?.message), 400);
    const model = models.get(parsed.data.model);
    if (model === undefined) return c.json(errorJson(404, `there is no model ${parsed.data.model}`), 404);
    return model.serve(c, parsed.data);
  });
  return app;
}

/** A simulated model behind HTTP: its rate, its time, its count. */
class ServedModel {
  readonly #model: SimulatedModel;
  readonly #count: ServedCount;
  readonly #closing: AbortSignal;
  readonly #rate: RateLimit | undefined;
  #completions = 0;

  constructor(
    name: string,
    settings: ModelSettings,
    options: SimulatorOptions,
    count: ServedCount,
    closing: AbortSignal,
  ) {
    this.#model = new SimulatedModel(name, settings, options.answers);
    this.#count = count;
    this.#closing = closing;
    const { ratePerSecond } = settings;
    this.#rate = ratePerSecond === undefined ? undefined : new RateLimit(ratePerSecond, performance.now());
  }

  async serve(c: Context<Bindings>, request: ChatRequest): Promise<Response> {
    const waitMs = this.#rate?.take(performance.now()) ?? 0;
    if (waitMs > 0) return this.#refuse(429, Math.max(RETRY_AFTER_S, Math.ceil(waitMs / 1000)));
    const reply = this.#model.reply(request);
    switch (reply.kind) {
      case "refused":
        return this.#refuse(reply.status, RETRY_AFTER_S);
      case "hang":
        this.#count.request(this.#model.name, "hang");
        this.#count.tokens(this.#model.name, reply.input);
        return this.#hang(askerOf(c.env.outgoing));
      case "answer":
        this.#count.request(this.#model.name, "200");
        return this.#answer(c.env.outgoing, askerOf(c.env.outgoing), request, reply);
    }
  }

  #refuse(status: number, retryAfterS: number): Response {
    this.#count.request(this.#model.name, String(status));
    const headers = status === 429 || status === 529 || status === 503 ? { "retry-after": String(retryAfterS) } : {};
    return Response.json(errorJson(status), { status, headers });
  }

  /** Never answers, until the asker or the simulator goes. */
  async #hang(asker: AbortSignal): Promise<Response> {
    await this.#pause(TIMER_MAX_MS, asker);
    return RESPONSE_ALREADY_SENT;
  }

  async #answer(outgoing: Outgoing, asker: AbortSignal, request: ChatRequest, answer: Answer): Promise<Response> {
    const head: CompletionHead = {
      id: `chatcmpl-sim-${++this.#completions}`,
      created: Math.floor(Date.now() / 1000),
      model: this.#model.name,
    };
    this.#count.tokens(this.#model.name, answer.input);
    if (request.stream === true) {
      await this.#stream(
        outgoing,
        asker,
        chunksOf(head, answer, request.stream_options?.include_usage === true),
        answer,
      );
      return RESPONSE_ALREADY_SENT;
    }
    await this.#pause(answer.latencyMs + answer.gapMs * answer.pieces.length, asker);
    this.#generated(answer.cutAfter ?? answer.pieces.length);
    if (answer.cutAfter === undefined) return Response.json(completionJson(head, answer));
    outgoing.destroy();
    return RESPONSE_ALREADY_SENT;
  }

  /** A token counts as served when it has been generated, whether or not the asker reads it. */
  async #stream(outgoing: Outgoing, asker: AbortSignal, chunks: Chunks, answer: Answer): Promise<void> {
    const write = async (value: object | string): Promise<void> => {
      const more = outgoing.write(`data: ${typeof value === "string" ? value : JSON.stringify(value)}\n\n`);
      if (!more && !asker.aborted) await once(outgoing, "drain", { signal: asker }).catch(() => undefined);
    };
    outgoing.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
    await this.#pause(answer.latencyMs, asker);
    await write(chunks.opening);
    for (const piece of chunks.pieces.slice(0, answer.cutAfter)) {
      await this.#pause(answer.gapMs, asker);
      if (asker.aborted) return;
      this.#generated(1);
      await write(piece);
    }
    if (answer.cutAfter !== undefined) {
      // What was written goes out first: it is an answer that breaks off, not one that never began.
      await new Promise((resolve) => outgoing.write("\n", resolve));
      outgoing.destroy();
      return;
    }
    for (const chunk of chunks.closing) await write(chunk);
    outgoing.end("data: [DONE]\n\n");
  }

  #generated(outputTokens: number): void {
    this.#count.tokens(this.#model.name, { outputTokens });
  }

  /** Ends early when the asker or the simulator goes. */
  async #pause(ms: number, asker: AbortSignal): Promise<void> {
    if (ms <= 0) return;
    await sleep(ms, undefined, { signal: AbortSignal.any([asker, this.#closing]) }).catch(() => undefined);
  }
}

/** Aborted when the asker's connection is gone. */
function askerOf(outgoing: Outgoing): AbortSignal {
  const gone = new AbortController();
  outgoing.once("close", () => gone.abort());
  return gone.signal;
}
