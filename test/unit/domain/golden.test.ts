import { readFileSync, readdirSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { z } from "zod";
import { Score } from "../../../src/domain/check.ts";
import { Failure } from "../../../src/domain/failure.ts";
import { Message } from "../../../src/domain/message.ts";
import { Step } from "../../../src/domain/step.ts";
import { EventBody, TurnEvent } from "../../../src/domain/turn-event.ts";
import { TurnRecord } from "../../../src/domain/turn-record.ts";
import { StoredRequest } from "../../../src/domain/turn-request.ts";
import { AttemptSummary, TurnResult } from "../../../src/domain/turn-result.ts";

/** What a released version wrote, by the shape in front of the first full stop of the file's name. */
const SHAPES: Readonly<Record<string, z.ZodType>> = {
  "stored-request": StoredRequest,
  "turn-record": TurnRecord,
  "turn-result": TurnResult,
  "attempt-summary": AttemptSummary,
  event: TurnEvent,
  message: Message,
  step: Step,
  failure: Failure,
  score: Score,
};

const folder = new URL("../../golden/v1/", import.meta.url);
const names = readdirSync(folder);

describe("what version 1 wrote is read for ever", () => {
  test.each(names)("%s parses and nothing of it is dropped", (name) => {
    const shape = SHAPES[name.split(".")[0] ?? ""];
    if (shape === undefined) throw new Error(`no shape for ${name}`);
    const stored: unknown = JSON.parse(readFileSync(new URL(name, folder), "utf8"));
    const read = shape.parse(stored);
    expect(read).toEqual(stored);
    expect(shape.parse(JSON.parse(JSON.stringify(read)))).toEqual(stored);
  });

  test("every shape and every event type has a file", () => {
    expect(new Set(names.map((name) => name.split(".")[0]))).toEqual(new Set(Object.keys(SHAPES)));
    const types = EventBody.options.map((option) => option.shape.type.value);
    expect(names).toEqual(expect.arrayContaining(types.map((type) => `event.${type}.json`)));
  });
});
