import type { z } from "zod";

type Schema = z.core.$ZodType;
type PathPart = PropertyKey;

/** The keys that an object at `path` of a value may have, by the value's schema; empty where it may have any. */
export function keysAt(schema: Schema, path: readonly PathPart[], value: unknown): string[] {
  const keys = schemasAt(schema, path, value).flatMap((found) => {
    const { def } = definitionOf(found);
    return def.type === "object" ? Object.keys(def.shape) : [];
  });
  return [...new Set(keys)];
}

/** What may stand at a path: several schemas below a union whose option the value does not tell. */
function schemasAt(schema: Schema, path: readonly PathPart[], value: unknown): readonly Schema[] {
  const { def } = definitionOf(schema);
  if (def.type === "union") return optionsFor(def, value).flatMap((option) => schemasAt(option, path, value));
  if (def.type === "intersection") return [def.left, def.right].flatMap((side) => schemasAt(side, path, value));
  const [part, ...deeper] = path;
  if (part === undefined) return [schema];
  const next = schemaBelow(def, part);
  return next === undefined ? [] : schemasAt(next, deeper, fieldOf(value, part));
}

type Definition = z.core.$ZodTypes["_zod"];

/** A schema's definition, below what only says that the value may be absent, has a default and the like. */
function definitionOf(schema: Schema): Definition {
  const definition = schema._zod as Definition;
  const { def } = definition;
  switch (def.type) {
    case "optional":
    case "nullable":
    case "default":
    case "prefault":
    case "nonoptional":
    case "readonly":
    case "catch":
      return definitionOf(def.innerType);
    case "pipe":
      return definitionOf(def.in);
    case "lazy":
      return definitionOf(def.getter());
    default:
      return definition;
  }
}

function schemaBelow(def: Definition["def"], part: PathPart): Schema | undefined {
  switch (def.type) {
    case "object":
      return Object.hasOwn(def.shape, part) ? def.shape[String(part)] : def.catchall;
    case "record":
      return def.valueType;
    case "array":
      return def.element;
    case "tuple":
      return def.items[Number(part)] ?? def.rest ?? undefined;
    default:
      return undefined;
  }
}

/** The options of a union that a value can be meant for: the one that its tag names, where it has a tag. */
function optionsFor(def: z.core.$ZodUnionDef, value: unknown): readonly Schema[] {
  const field = "discriminator" in def && typeof def.discriminator === "string" ? def.discriminator : undefined;
  if (field === undefined) return def.options;
  const tag = fieldOf(value, field);
  const named = def.options.filter((option) => option._zod.propValues?.[field]?.has(tag as never) === true);
  return named.length === 0 ? def.options : named;
}

/** What a value has at a key of its own; undefined where it has none. */
function fieldOf(value: unknown, key: PathPart): unknown {
  return typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (Reflect.get(value, key) as unknown)
    : undefined;
}

/** What stands at a path of a value; undefined where nothing does. */
export function valueAt(value: unknown, path: readonly PathPart[]): unknown {
  return path.reduce(fieldOf, value);
}
