import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cellTurnId } from "../../../src/domain/cell-id.ts";
import { SeenIds } from "../../../src/batch/seen.ts";
import { Id } from "../../../src/domain/id.ts";

describe("the id of a cell's turn", () => {
  test("is its four parts, and hashed with a readable beginning when too long", () => {
    expect(cellTurnId({ batch: "b", sample: "HumanEval/0", agent: "py", epoch: 2 })).toBe("b:HumanEval/0:py:2");
    const long = cellTurnId({ batch: "b", sample: "s".repeat(200), agent: "py", epoch: 2 });
    expect(long).toMatch(/^b:s{154}@[A-Za-z0-9_-]{43}$/);
    expect(cellTurnId({ batch: "a:b", sample: "c", agent: "x", epoch: 1 })).toMatch(/^a:b:c:x:1@/);
  });

  test("A20 is a valid id, and no two cells have the same, whatever the parts hold", () => {
    const id = fc.string({ unit: fc.constantFrom("a", "b", ":", "@", "-", "1"), minLength: 1, maxLength: 120 });
    const name = fc.string({ unit: fc.constantFrom("a", "b", "@", "-", "1"), minLength: 1, maxLength: 60 });
    const cell = fc.record({ batch: id, sample: id, agent: name, epoch: fc.integer({ min: 1, max: 12 }) });
    fc.assert(
      fc.property(cell, cell, (a, b) => {
        expect(Id.safeParse(cellTurnId(a)).success).toBe(true);
        expect(cellTurnId(a) === cellTurnId(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
    const short = fc.record({
      batch: fc.constantFrom("a", "a:b", "a:b:c"),
      sample: fc.constantFrom("b", "b:c", "c", "c:x", "x:1"),
      agent: fc.constantFrom("x", "1"),
      epoch: fc.constantFrom(1, 2),
    });
    fc.assert(
      fc.property(short, short, (a, b) => {
        expect(cellTurnId(a) === cellTurnId(b)).toBe(JSON.stringify(a) === JSON.stringify(b));
      }),
    );
  });
});

describe("ids that were seen", () => {
  test("is what a plain map would say, at any order of lines with and without ids", () => {
    const line = fc.option(fc.integer({ min: 1, max: 15 }).map(String), { nil: undefined });
    fc.assert(
      fc.property(fc.array(line, { maxLength: 15 }), (lines) => {
        const [seen, plain] = [new SeenIds(), new Map<string, number>()];
        for (const [index, own] of lines.entries()) {
          const id = own ?? String(index + 1);
          expect(seen.add(id, index + 1, own !== undefined)).toBe(plain.get(id));
          if (!plain.has(id)) plain.set(id, index + 1);
        }
      }),
    );
  });
});
