import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";

/** A request as a model server got it. */
export interface ModelRequest {
  readonly body: {
    readonly model: string;
    readonly messages: readonly { readonly role: string; readonly content: unknown; readonly tool_calls?: unknown }[];
    readonly [field: string]: unknown;
  };
  readonly headers: IncomingMessage["headers"];
  /** From 1. */
  readonly number: number;
}

/** What a model server does: pieces of a stream, and how it ends. */
export type ModelReply =
  | {
      readonly status: number;
      readonly body?: string | undefined;
      readonly headers?: Record<string, string> | undefined;
    }
  | {
      readonly text?: string | undefined;
      /** More pieces of text. */
      readonly texts?: readonly string[] | undefined;
      readonly tool?: { readonly name: string; readonly args?: string | undefined } | undefined;
      /** Several are sent one after the other, as some servers do: each replaces the one before. */
      readonly usage?: object | readonly object[] | null | undefined;
      readonly finish?: string | undefined;
      /** After text and tool: the connection breaks off, stays silent, or an error comes in the stream, as a piece of it. */
      readonly then?: "cut" | "hang" | { readonly said: object | string } | undefined;
      /** Before a byte of the answer: the connection breaks off. */
      readonly first?: "reset" | undefined;
    };

const USAGE = { prompt_tokens: 10, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 3 } };

/** A model server that does what it is told, on the loopback address. */
export class ModelServer {
  readonly requests: ModelRequest[] = [];
  readonly #server: Server;
  readonly #reply: (request: ModelRequest) => ModelReply;

  private constructor(server: Server, reply: (request: ModelRequest) => ModelReply) {
    this.#server = server;
    this.#reply = reply;
  }

  static async start(reply: (request: ModelRequest) => ModelReply): Promise<ModelServer> {
    const server = createServer((request, response) => void self.#answer(request, response));
    const self = new ModelServer(server, reply);
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    return self;
  }

  get baseUrl(): string {
    const address = this.#server.address();
    return `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}/v1`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    if (this.#server.listening) await once(this.#server, "close");
  }

  async #answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const parts: Buffer[] = [];
    for await (const part of incoming) parts.push(part as Buffer);
    const body = JSON.parse(Buffer.concat(parts).toString("utf8")) as ModelRequest["body"];
    const request = { body, headers: incoming.headers, number: this.requests.length + 1 };
    this.requests.push(request);
    const reply = this.#reply(request);
    if ("status" in reply) {
      response.writeHead(reply.status, { "content-type": "application/json", ...reply.headers });
      response.end(reply.body ?? JSON.stringify({ error: { message: `status ${reply.status}` } }));
    } else if (reply.first === "reset") response.destroy();
    else stream(reply, request, response);
  }
}

/** Writes the answer as the chunks of a completion. */
function stream(reply: Extract<ModelReply, { text?: unknown }>, request: ModelRequest, response: ServerResponse): void {
  const { text, texts = [], tool, usage = USAGE, then } = reply;
  const finish = reply.finish ?? (tool === undefined ? "stop" : "tool_calls");
  const chunk = { id: "c", object: "chat.completion.chunk", created: 1, model: request.body.model };
  const line = (value: object): void => void response.write(`data: ${JSON.stringify(value)}\n\n`);
  const delta = (content: object, reason: string | null = null): void =>
    line({ ...chunk, choices: [{ index: 0, delta: content, finish_reason: reason }] });
  const tellUsage = (all: object | readonly object[] | null | undefined): void => {
    for (const said of [all ?? []].flat()) line({ ...chunk, choices: [], usage: said });
  };
  response.writeHead(200, { "content-type": "text/event-stream" });
  if (text !== undefined) delta({ role: "assistant", content: text });
  for (const piece of texts) delta({ content: piece });
  if (tool !== undefined) delta({ tool_calls: [callOf(tool, request.number)] });
  if (then === "hang") return;
  if (then === "cut") {
    // What was written is to arrive before the end does.
    setImmediate(() => response.destroy());
    return;
  }
  if (typeof then === "object") {
    tellUsage(reply.usage);
    response.write(typeof then.said === "string" ? then.said : `data: ${JSON.stringify(then.said)}\n\n`);
  } else {
    delta({}, finish);
    tellUsage(usage);
  }
  response.end("data: [DONE]\n\n");
}

function callOf({ name, args }: { readonly name: string; readonly args?: string | undefined }, number: number): object {
  return { index: 0, id: `call-${number}`, type: "function", function: { name, arguments: args ?? "{}" } };
}
