import { existsSync } from "node:fs";
import { extname } from "node:path";
import { pathToFileURL } from "node:url";
import { AGENT_CLASS } from "../../agent/agent.ts";
import type { AgentSpec } from "../../agent/agent-spec.ts";
import { agentClassSpec, isAgentClass } from "../../agent/class-spec.ts";
import { isDefinedAgent, specOf } from "../../agent/define-agent.ts";
import { TurnqError, messageOf } from "../../domain/error.ts";
import type { LoadOrder } from "./runner-message.ts";

/**
 * Loads the agent of a module, in the process that this is called in.
 * @throws TurnqError `config` that names the file
 */
export async function loadModule(order: Omit<LoadOrder, "type">): Promise<AgentSpec> {
  const { name, config = {}, metadata } = order;
  const value = chooseAgent(await importFile(order), order);
  if (isDefinedAgent(value)) return specOf(value, { name, metadata });
  if (isAgentClass(value)) return agentClassSpec(name, value, config, { metadata });
  throw problem(order, "holds no agent");
}

async function importFile(order: Omit<LoadOrder, "type">): Promise<Record<string, unknown>> {
  const { path } = order;
  if (!existsSync(path)) throw problem(order, `does not exist (${path})`);
  try {
    return (await (isTypeScript(path) ? importTypeScript(path) : import(pathToFileURL(path).href))) as Record<
      string,
      unknown
    >;
  } catch (error) {
    throw problem(order, `cannot be loaded: ${messageOf(error)}`, error);
  }
}

function isTypeScript(path: string): boolean {
  return [".ts", ".mts", ".cts", ".tsx"].includes(extname(path));
}

async function importTypeScript(path: string): Promise<unknown> {
  const { createJiti } = await import("jiti");
  // What Node can load it loads, this package among it, so that there is one copy and no time lost. No cache on
  // disk: it would be the one thing that a run leaves behind outside its folder.
  return await createJiti(pathToFileURL(path).href, { fsCache: false, tryNative: true }).import(path);
}

function chooseAgent(exports: Record<string, unknown>, order: Omit<LoadOrder, "type">): unknown {
  const wanted = order.export;
  if (wanted !== undefined) {
    if (!Object.hasOwn(exports, wanted)) throw problem(order, `has no export ${wanted}`);
    if (!isAgent(exports[wanted])) throw problem(order, `exports as ${wanted} something that is no agent`);
    return exports[wanted];
  }
  const agents = new Map<unknown, string>();
  for (const [name, value] of Object.entries(exports))
    if (isAgent(value) && !agents.has(value)) agents.set(value, name);
  const [only] = agents.keys();
  if (only === undefined)
    throw problem(order, "exports no agent: neither a subclass of Agent nor what defineAgent gives");
  if (agents.size > 1) {
    throw problem(order, `exports ${agents.size} agents (${[...agents.values()].join(", ")}): say which by "export"`);
  }
  return only;
}

function isAgent(value: unknown): boolean {
  // The base class itself, exported again, is no agent.
  return isDefinedAgent(value) || (isAgentClass(value) && !Object.hasOwn(value, AGENT_CLASS));
}

function problem(order: Omit<LoadOrder, "type">, what: string, cause?: unknown): TurnqError {
  return new TurnqError("config", `the module ${order.module} ${what}`, { cause });
}
