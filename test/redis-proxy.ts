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
  /**
   * Answers the next commands that match with an error (`"LOADING Redis is loading"`), so often, and hands none of them
   * on. A MULTI that matches is answered so up to its EXEC, and counts once.
   */
  answer(error: string, times: number, match: CommandMatch): void;
  /** Connections that come from now on go to this port, as behind an address that moves; those that are open stay. */
  retarget(port: number): void;
  close(): Promise<void>;
}

/** Commands after which a connection gets what nobody asked for: from then on it is only passed through. */
const LISTENING = new Set(["subscribe", "psubscribe", "ssubscribe", "monitor"]);

interface Cut {
  readonly match: CommandMatch;
  readonly done: () => void;
}

/** Errors for the next commands that match. */
interface Refusal {
  readonly error: string;
  readonly match: CommandMatch;
  left: number;
}

/** A command that has no reply yet, or a MULTI's EXEC, whose cut may be due to a command before it. */
interface Pending {
  readonly cut?: Cut | undefined;
  /** Its reply, when Redis is not asked. */
  readonly reply?: Buffer;
}

/** What is to become of a command: nothing else than usual, most often. */
interface Fate {
  readonly cut?: Cut | undefined;
  readonly error?: string | undefined;
}

/** Opens a proxy before a Redis on this machine. */
export async function openRedisProxy(targetPort: number, host = "127.0.0.1"): Promise<RedisProxy> {
  const links = new Set<Link>();
  const listeners = new Set<(command: ProxiedCommand) => void>();
  const cuts: Cut[] = [];
  const refusals: Refusal[] = [];
  let target = targetPort;
  let refusing = false;
  let holding = false;
  const seen = (command: ProxiedCommand): Fate => {
    for (const listen of listeners) listen(command);
    // Inside of a MULTI it is too late: what was queued would be executed without it.
    const refusal = command.inMulti ? undefined : refusals.find(({ left, match }) => left > 0 && match(command));
    if (refusal !== undefined) {
      refusal.left -= 1;
      return { error: refusal.error };
    }
    const at = cuts.findIndex(({ match }) => match(command));
    return at === -1 ? {} : { cut: cuts.splice(at, 1)[0] };
  };
  const server = createServer((client) => {
    if (refusing) {
      client.destroy();
      return;
    }
    const link = new Link(client, dial(target, host), seen, () => links.delete(link));
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
    answer(error, times, match) {
      refusals.push({ error, match, left: times });
    },
    retarget(next) {
      target = next;
    },
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
  readonly #seen: (command: ProxiedCommand) => Fate;
  readonly #asked = new RespReader();
  readonly #answered = new RespReader();
  readonly #pending: Pending[] = [];
  #passing = false;
  #held = false;
  #multi: { cut: Cut | undefined; readonly error: string | undefined } | undefined;

  constructor(client: Socket, redis: Socket, seen: (command: ProxiedCommand) => Fate, onEnd: () => void) {
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
    const onward: Buffer[] = [];
    if (this.#passing) onward.push(chunk);
    else {
      for (const value of this.#asked.read(chunk))
        if (this.#note(commandOf(wordsOf(value), this.#multi))) onward.push(value.bytes);
      if (this.#passing) onward.push(this.#asked.rest());
    }
    if (onward.length > 0 && !this.#redis.write(Buffer.concat(onward))) this.#client.pause();
    this.#answerOwn();
  }

  /** True when Redis is to get it. */
  #note(command: ProxiedCommand): boolean {
    if (LISTENING.has(command.name)) this.#passing = true;
    const { cut, error } = this.#seen(command);
    const refused = error ?? this.#multi?.error;
    const ends = command.name === "exec" || command.name === "discard";
    const whole = ends ? (cut ?? this.#multi?.cut) : undefined;
    if (command.name === "multi") this.#multi = { cut, error };
    else if (ends) this.#multi = undefined;
    else if (this.#multi !== undefined) this.#multi.cut ??= cut;
    if (refused !== undefined) {
      this.#pending.push({ reply: Buffer.from(`-${refused}\r\n`) });
      return false;
    }
    // What Redis says to it inside a MULTI is only that it is queued.
    this.#pending.push({ cut: ends ? whole : this.#multi === undefined ? cut : undefined });
    return true;
  }

  /** Gives the replies that are the proxy's own, once those before them were given. */
  #answerOwn(): void {
    for (let reply = this.#pending[0]?.reply; reply !== undefined; reply = this.#pending[0]?.reply) {
      this.#pending.shift();
      this.#on(reply);
    }
  }

  #fromRedis(chunk: Buffer): void {
    if (this.#passing) {
      this.#on(Buffer.concat([this.#answered.rest(), chunk]));
      return;
    }
    this.#client.cork();
    for (const { bytes, kind } of this.#answered.read(chunk)) {
      const cut = kind === ">" ? undefined : this.#pending.shift()?.cut;
      if (cut !== undefined) {
        // The replies before it were on their way.
        this.#client.uncork();
        this.#redis.destroy();
        cut.done();
        return;
      }
      this.#on(bytes);
      this.#answerOwn();
    }
    this.#client.uncork();
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
