import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { parseAst } from "rolldown/parseAst";
import { expect, test } from "vitest";
import { ERROR_CODES, TurnqError } from "../../src/domain/error.ts";
import { AgentCrashError, TurnTimeoutError } from "../../src/agent/turn-errors.ts";
import { WaitTimeoutError } from "../../src/queue/turn-handle.ts";

/** A place in the code that makes a TurnqError: what can be read there of its code, message, where and hint. */
interface Place {
  readonly at: string;
  readonly codes: readonly string[];
  readonly messages: readonly string[];
  readonly wheres: readonly string[];
  readonly hints: readonly string[];
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly [field: string]: unknown;
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && typeof Reflect.get(value, "type") === "string";
const nodesIn = (value: unknown): Node[] =>
  Array.isArray(value) ? value.flatMap(nodesIn) : isNode(value) ? [value] : [];

/** What only a run can tell stands as this in a text. */
const FILLED = "‹…›";

/** The texts that an expression may come to. */
function textsOf(node: unknown): string[] {
  if (!isNode(node)) return [];
  if (node.type === "Literal") return typeof node["value"] === "string" ? [node["value"]] : [];
  if (node.type === "ConditionalExpression") return [...textsOf(node["consequent"]), ...textsOf(node["alternate"])];
  if (node.type === "LogicalExpression") return [...textsOf(node["left"]), ...textsOf(node["right"])];
  if (node.type !== "TemplateLiteral") return [];
  const quasis = node["quasis"] as readonly { readonly value: { readonly cooked: string } }[];
  return [quasis.map(({ value }) => value.cooked).join(FILLED)];
}

const nameOf = (node: unknown): string => (isNode(node) && typeof node["name"] === "string" ? node["name"] : "");

/** The functions of a file that make a TurnqError of a message that they are given, with its place among their parameters. */
function makersIn(text: string, body: readonly unknown[]): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const node of nodesIn(body)) {
    const made = isNode(node["declaration"]) ? node["declaration"] : node;
    const type = made["returnType"];
    if (made.type !== "FunctionDeclaration" || !isNode(type)) continue;
    if (!text.slice(type.start, Number(type["end"])).includes("TurnqError")) continue;
    const at = nodesIn(made["params"]).findIndex((param) => ["message", "what"].includes(nameOf(param)));
    if (at >= 0) found.set(nameOf(made["id"]), at);
  }
  return found;
}

function placesIn(path: string): Place[] {
  const text = readFileSync(path, "utf8");
  const found: Place[] = [];
  const { body } = parseAst(text, { lang: "ts" }, path);
  const makers = makersIn(text, body);
  const lineOf = (node: Node): string => `${path}:${text.slice(0, node.start).split("\n").length}`;
  const visit = (node: Node, base: string): void => {
    const into =
      node.type === "ClassDeclaration" || node.type === "ClassExpression" ? nameOf(node["superClass"]) : base;
    const callee = node["callee"] as Node | undefined;
    const makes =
      (node.type === "NewExpression" && nameOf(callee) === "TurnqError") ||
      (node.type === "CallExpression" && callee?.type === "Super" && base === "TurnqError");
    const maker = node.type === "CallExpression" ? makers.get(nameOf(callee)) : undefined;
    if (maker !== undefined) {
      const messages = textsOf((node["arguments"] as readonly Node[])[maker]);
      found.push({ at: lineOf(node), codes: [], messages, wheres: [], hints: [] });
    }
    if (makes) {
      const [code, message, options] = node["arguments"] as readonly Node[];
      const properties = (options?.["properties"] ?? []) as readonly Node[];
      const option = (name: string): string[] =>
        properties.flatMap(({ key, value }) => (nameOf(key) === name ? textsOf(value) : []));
      found.push({
        at: lineOf(node),
        codes: textsOf(code),
        messages: textsOf(message),
        wheres: option("where"),
        hints: option("hint"),
      });
    }
    for (const value of Object.values(node)) for (const inner of nodesIn(value)) visit(inner, into);
  };
  for (const node of nodesIn(body)) visit(node, "");
  return found;
}

const places = ["src", "workers"]
  .flatMap((folder) => readdirSync(folder, { recursive: true, withFileTypes: true }))
  .filter(({ name }) => name.endsWith(".ts"))
  .flatMap(({ parentPath, name }) => placesIn(join(parentPath, name)));

const bad = (texts: (place: Place) => readonly string[], isBad: (text: string) => boolean): string[] =>
  places.flatMap((place) => texts(place).flatMap((text) => (isBad(text) ? [`${place.at}: ${text}`] : [])));

test("U14: no message written by hand sets marks that the constructor sets", () => {
  expect(places.length).toBeGreaterThan(90);
  // A clause: it neither ends as a sentence nor has another behind it, which would be the hint.
  expect(
    bad(
      ({ messages }) => messages,
      (text) => /[.,;:!\s]$|[.!?] +(\p{Lu}|$)/u.test(text),
    ),
  ).toEqual([]);
  expect(
    bad(
      ({ wheres }) => wheres,
      (text) => /[.:;,\s]$/.test(text),
    ),
  ).toEqual([]);
  expect(
    bad(
      ({ hints }) => hints,
      (text) => !/^[\p{Lu}‹]/u.test(text) || !/[.!?›]$/.test(text),
    ),
  ).toEqual([]);
});

test("U14: every code of the catalogue is made somewhere, and each place makes one of the catalogue", () => {
  const made = new Set(places.flatMap(({ codes }) => codes));
  expect([...made].filter((code) => !Object.hasOwn(ERROR_CODES, code))).toEqual([]);
  expect(Object.keys(ERROR_CODES).filter((code) => !made.has(code))).toEqual([]);
});

test("U14: what is wrong and what to do are two sentences, whatever they are made of", () => {
  const clause = fc.stringMatching(/^[a-z0-9 "'():/]{0,20}[a-z0-9")]$/);
  const mark = fc.constantFrom("", ".", "!", "?", "…", " ", ": ");
  fc.assert(
    fc.property(clause, mark, fc.option(clause), clause, mark, (what, end, where, todo, last) => {
      const hint = `Use ${todo}${last}`;
      const { message } = new TurnqError("invalid_request", `${what}${end}`, { where: where ?? undefined, hint });
      expect(message.startsWith(where === null ? what : `${where}: ${what}`)).toBe(true);
      expect(message).toMatch(/[.!?…]["']? Use /);
      expect(message).toMatch(/[.!?…]["']?$/);
      expect(message).not.toMatch(/\.\.|\s\s(?=Use)|[:,;]\.| \.$/);
    }),
    { examples: [["input differs", "", null, "another id", "."]] },
  );
});

test("U14: the messages that ran together are put right", () => {
  expect(new WaitTimeoutError("t", 9000).message).toBe(
    "turn t: the turn is not settled after 9000 ms. It goes on; ask again.",
  );
  const listens = new TurnqError("config", "cannot listen: address already in use 127.0.0.1:8091", {
    where: "--port: ",
    hint: "Leave the port out",
  });
  expect(listens.message).toBe("--port: cannot listen: address already in use 127.0.0.1:8091. Leave the port out.");
  const lines = new TurnqError("invalid_input", "1 bad line\nline 1: is no JSON", { hint: "Mend it." });
  expect(lines.message).toBe("1 bad line\nline 1: is no JSON\nMend it.");
  // What others said is kept as they said it.
  expect(new AgentCrashError("it broke.").message).toBe("it broke.");
  expect(new TurnTimeoutError(5).message).toBe("the turn reached its deadline of 5 ms");
});
