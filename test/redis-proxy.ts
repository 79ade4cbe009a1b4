import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, connect as dial, type AddressInfo, type Socket } from "node:net";
import { createRequire } from "node:module";
import { loadScripts } from "../src/ledger/scripts.ts";
import { RespReader, wordsOf } from "./resp.ts";

/** A command as it passed the proxy. */
export interface ProxiedCommand {
  /** In lower case. */
  readonly name: string;
  /** The words behind the name, as text. */
  readonly args: readonly string[];
  /** What a script is called: ours as in SCRIPT_NAMES with `turnq_` before it, BullMQ's with `bull_`, else its digest. */
  readonly script?: string;
  /** True between MULTI and EXEC. */
  readonly inMulti: boolean;
  /** True for a script whose text was sent along: a client does that when Redis does not know it. */
  readonly whole: boolean;
}

/** What a command is called in lists: a script by its name. */
export function labelOf({ name, script }: ProxiedCommand): string {
  return script ?? name;
}

export type CommandMatch = (command: ProxiedCommand) => boolean;

/** What stands between clients and a Redis. */
export interface RedisProxy {
  readonly port: number;
  readonly url: string;
  /** Connections of clients that are open. */
  readonly connections: number;
  /** Drops every connection now. */
  cut(): void;
  /** While on, new connections are dropped at once; turning it on drops those that are open. */
  refuse(on: boolean): void;
  /** While on, connections stay and are accepted, but nothing goes through, in either direction. */
  hold(on: boolean): void;
  /** Calls for every command that comes in; the answer ends that. */
  onCommand(listen: (command: ProxiedCommand) => void): () => void;
  /**
   * Has Redis execute the next command that matches, and drops its connection instead of handing on
   * the reply. Inside a MULTI it is the reply of the EXEC. Resolves when that was done.
   */
  cutReply(match: CommandMatch): Promise<void>;
  close(): Promise<void>;
}

/** Commands after which a connection gets what nobody asked for: from then on it is only passed through. */
const LISTENING = new Set(["subscribe", "psubscribe", "ssubscribe", "monitor"]);

interface Cut {
  readonly match: CommandMatch;
  readonly done: () => void;
}

/** A command that has no reply yet, or a MULTI's EXEC, whose cut may be due to a command before it. */
interface Pending {
  readonly cut: Cut | undefined;
}

/** Opens a proxy before a Redis on this machine. */
export async function openRedisProxy(targetPort: number, host = "127.0.0.1"): Promise<RedisProxy> {
  const links = new Set<Link>();
  const listeners = new Set<(command: ProxiedCommand) => void>();
  const cuts: Cut[] = [];
  let refusing = false;
  let holding = false;
  const seen = (command: ProxiedCommand): Cut | undefined => {
    for (const listen of listeners) listen(command);
    const at = cuts.findIndex(({ match }) => match(command));
    return at === -1 ? undefined : cuts.splice(at, 1)[0];
  };
  const server = createServer((client) => {
    if (refusing) {
      client.destroy();
      return;
    }
    const link = new Link(client, dial(targetPort, host), seen, () => links.delete(link));
    links.add(link);
    link.hold(holding);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const cut = (): void => {
    for (const link of links) link.end();
  };
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    get connections() {
      return links.size;
    },
    cut,
    refuse(on) {
      refusing = on;
      if (on) cut();
    },
    hold(on) {
      holding = on;
      for (const link of links) link.hold(on);
    },
    onCommand(listen) {
      listeners.add(listen);
      return () => void listeners.delete(listen);
    },
    cutReply: (match) => new Promise((done) => cuts.push({ match, done })),
    async close() {
      refusing = true;
      cut();
      server.close();
      await once(server, "close");
    },
  };
}

/** One client's connection and its way on. */
class Link {
  readonly #client: Socket;
  readonly #redis: Socket;
  readonly #seen: (command: ProxiedCommand) => Cut | undefined;
  readonly #asked = new RespReader();
  readonly #answered = new RespReader();
  readonly #pending: Pending[] = [];
  #passing = false;
  #held = false;
  #multi: { cut: Cut | undefined } | undefined;

  constructor(client: Socket, redis: Socket, seen: (command: ProxiedCommand) => Cut | undefined, onEnd: () => void) {
    this.#client = client;
    this.#redis = redis;
    this.#seen = seen;
    for (const socket of [client, redis]) {
      socket.setNoDelay(true);
      socket.on("error", () => undefined);
    }
    client.on("close", () => {
      this.end();
      onEnd();
    });
    // What it said last is still to be handed on.
    redis.on("close", () => client.end(() => this.end()));
    client.on("data", (chunk: Buffer) => this.#fromClient(chunk));
    redis.on("data", (chunk: Buffer) => this.#fromRedis(chunk));
    this.#press(client, redis);
    this.#press(redis, client);
  }

  /** A side that does not read stops the other one: the proxy keeps no more than Redis itself would. */
  #press(from: Socket, to: Socket): void {
    to.on("drain", () => void (this.#held || from.resume()));
  }

  hold(on: boolean): void {
    this.#held = on;
    for (const socket of [this.#client, this.#redis]) {
      if (on) socket.pause();
      else socket.resume();
    }
  }

  end(): void {
    this.#client.destroy();
    this.#redis.destroy();
  }

  #fromClient(chunk: Buffer): void {
    if (!this.#passing) for (const value of this.#asked.read(chunk)) this.#note(commandOf(wordsOf(value), this.#multi));
    if (!this.#redis.write(chunk)) this.#client.pause();
  }

  #note(command: ProxiedCommand): void {
    if (LISTENING.has(command.name)) this.#passing = true;
    const cut = this.#seen(command);
    if (command.name === "multi") this.#multi = { cut };
    else if (command.name === "exec" || command.name === "discard") {
      this.#pending.push({ cut: cut ?? this.#multi?.cut });
      this.#multi = undefined;
      return;
    } else if (this.#multi !== undefined) this.#multi.cut ??= cut;
    // What Redis says to it inside a MULTI is only that it is queued.
    this.#pending.push({ cut: this.#multi === undefined ? cut : undefined });
  }

  #fromRedis(chunk: Buffer): void {
    if (this.#passing) {
      this.#on(Buffer.concat([this.#answered.rest(), chunk]));
      return;
    }
    const whole: Buffer[] = [];
    for (const { bytes, kind } of this.#answered.read(chunk)) {
      const cut = kind === ">" ? undefined : this.#pending.shift()?.cut;
      if (cut !== undefined) {
        // The replies before it were on their way.
        if (whole.length > 0) this.#client.write(Buffer.concat(whole));
        this.#redis.destroy();
        cut.done();
        return;
      }
      whole.push(bytes);
    }
    if (whole.length > 0) this.#on(Buffer.concat(whole));
  }

  #on(bytes: Buffer): void {
    if (!this.#client.write(bytes)) this.#redis.pause();
  }
}

let names: ReadonlyMap<string, string> | undefined;

/** Names of scripts by the digests of their texts: ours and BullMQ's. */
function scriptNames(): ReadonlyMap<string, string> {
  if (names !== undefined) return names;
  const found = new Map(loadScripts().map(({ name, lua }) => [digest(lua), `turnq_${name}`]));
  const require = createRequire(import.meta.url);
  const scripts = require(require.resolve("bullmq").replace(/index\.js$/, "scripts/index.js")) as Record<
    string,
    { readonly name: string; readonly content: string }
  >;
  for (const { name, content } of Object.values(scripts)) found.set(digest(content), `bull_${name}`);
  return (names = found);
}

function digest(text: string | Buffer): string {
  return createHash("sha1").update(text).digest("hex");
}

function commandOf(words: readonly Buffer[], multi: object | undefined): ProxiedCommand {
  const name = (words[0] ?? "").toString().toLowerCase();
  const whole = name === "eval" || name === "eval_ro";
  const sha = whole ? digest(words[1] ?? "") : name.startsWith("evalsha") ? String(words[1]) : undefined;
  const args = words.slice(1).map(String);
  const script = sha === undefined ? {} : { script: scriptNames().get(sha) ?? sha };
  return { name, args, ...script, inMulti: multi !== undefined && name !== "exec", whole };
}
