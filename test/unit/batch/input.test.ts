import { describe, expect, test } from "vitest";
import { parseMapping } from "../../../src/batch/mapping.ts";
import { BAD_LINES_SHOWN, checkInput, problemLines, requestsOf, requestsOfObjects } from "../../../src/batch/input.ts";
import type { CellOptions } from "../../../src/batch/cells.ts";
import { collect, opener, options } from "./bytes.ts";

const check = (content: string, changes: Partial<CellOptions> = {}) => checkInput(opener(content), options(changes));
const read = (content: string, changes: Partial<CellOptions> = {}) =>
  collect(requestsOf(opener(content), options(changes)));
const problems = async (content: string, changes: Partial<CellOptions> = {}) =>
  problemLines(await check(content, changes));
const map = (text: string) => ({ map: parseMapping(text) });

describe("lines become turns", () => {
  test("a plain line", async () => {
    expect(await read('{"input":"hello"}')).toEqual([
      { id: "b1:1:echo:1", agent: "echo", input: "hello", batch: { id: "b1", sample: "1", epoch: 1 } },
    ]);
  });

  test("samples × agents × epochs, with the line's id as the sample and its number where there is none", async () => {
    const content = '{"input":"a","id":"s/1"}\n\n{"input":"b"}\n';
    const turns = await read(content, { agents: ["echo", "noop"], epochs: 2 });
    expect(turns.map((turn) => turn.id)).toEqual([
      "b1:s/1:echo:1",
      "b1:s/1:echo:2",
      "b1:s/1:noop:1",
      "b1:s/1:noop:2",
      "b1:3:echo:1",
      "b1:3:echo:2",
      "b1:3:noop:1",
      "b1:3:noop:2",
    ]);
    expect(await check(content, { agents: ["echo", "noop"], epochs: 2 })).toEqual({
      lines: 3,
      samples: 2,
      turns: 8,
      places: [
        { agent: "echo", lane: "echo" },
        { agent: "noop", lane: "noop" },
      ],
      problems: [],
      bad: 0,
    });
  });

  test("what a line says itself stands above the options", async () => {
    const content =
      '{"input":"a","agent":"noop","lane":"own","limits":{"timeoutMs":5},"expect":[{"type":"equals","value":"a"}]}\n{"input":"b","target":"x","limits":{"graceMs":1}}';
    const [own, filled] = await read(content, { lane: "fast", timeoutMs: 1000, expect: "includes" });
    expect(own).toMatchObject({
      agent: "noop",
      lane: "own",
      limits: { timeoutMs: 5 },
      expect: [{ type: "equals", value: "a" }],
    });
    expect(filled).toMatchObject({
      agent: "echo",
      lane: "fast",
      limits: { graceMs: 1, timeoutMs: 1000 },
      expect: [{ type: "includes" }],
    });
  });

  test("C60 the same prompt five times is five turns", async () => {
    const turns = await read('{"input":"same"}\n'.repeat(5));
    expect(new Set(turns.map((turn) => turn.id)).size).toBe(5);
  });

  test("C20 a mark, CRLF, blank lines and no last newline change nothing", async () => {
    const turns = await read('\ufeff{"input":"a"}\r\n\r\n{"input":"b"}\r\n{"input":"c"}');
    expect(turns.map((turn) => [turn.input, turn.batch.sample])).toEqual([
      ["a", "1"],
      ["b", "3"],
      ["c", "4"],
    ]);
  });

  test("limit takes the first samples and reads no further; sample takes the one", async () => {
    const content = '{"input":"a"}\n{"input":"b","id":"x"}\nnot JSON';
    expect((await read(content, { limit: 2 })).map((turn) => turn.input)).toEqual(["a", "b"]);
    expect((await read('{"input":"a"}\n{"input":"b","id":"x"}\n', { sample: "x" })).map((turn) => turn.input)).toEqual([
      "b",
    ]);
    expect(await check('{"input":"a"}\n{"input":"b","id":"x"}\n', { sample: "x", epochs: 3 })).toMatchObject({
      lines: 2,
      samples: 1,
      turns: 3,
    });
  });

  test("C20 nothing to do is no_turns", async () => {
    await expect(check("")).rejects.toMatchObject({ code: "no_turns", message: "no turns" });
    await expect(check("\ufeff\r\n  \n")).rejects.toMatchObject({ code: "no_turns" });
    await expect(check('{"input":"a"}', { sample: "7" })).rejects.toMatchObject({
      message: 'no turns: no line has the sample "7"',
    });
  });
});

describe("ids", () => {
  test("A20 one rule, told in the same words for every shape of a wrong id", async () => {
    const rule = "must be 1 to 200 characters of letters, digits and . _ - / : @";
    for (const id of ['""', '" "', '"a b"', '"ä"', JSON.stringify("x".repeat(20_000))]) {
      expect(await problems(`{"input":"x","id":${id}}`)).toEqual([`line 1, field id: ${rule}`]);
    }
    for (const id of ["null", "true", "[]", "{}"]) {
      expect(await problems(`{"input":"x","id":${id}}`)).toEqual(["line 1, field id: must be text"]);
    }
    await expect(check('{"input":"x"}', { batch: "a b" })).rejects.toMatchObject({ code: "invalid_id" });
  });

  test("A20 A29 business numbers are good ids, digit by digit as they are written", async () => {
    const content = ["123", '"456"', '"a:b"', "0", "9007199254740993", "1.0", "-5", '"NaN"']
      .map((id) => `{"input":"x","id":${id}}`)
      .join("\n");
    const turns = await read(content);
    expect(turns.map((turn) => turn.batch.sample)).toEqual([
      "123",
      "456",
      "a:b",
      "0",
      "9007199254740993",
      "1.0",
      "-5",
      "NaN",
    ]);
    const [mapped] = await read('{"q":"x","n":{"id":9007199254740993}}', map("input=q,id=n.id"));
    expect(mapped).toMatchObject({
      batch: { sample: "9007199254740993" },
      metadata: { n: { id: "9007199254740993" } },
    });
  });

  test("A23 an id that comes twice: both lines are named", async () => {
    expect(await problems('{"input":"a","id":"x"}\n{"input":"b"}\n{"input":"c","id":"x"}')).toEqual([
      'line 3, field id: the id "x" is already on line 1',
    ]);
    const many = Array.from({ length: 1000 }, (_, index) => `{"input":"x","id":"i${index % 990}"}`).join("\n");
    const report = await check(many);
    expect(report.problems).toHaveLength(10);
    expect(report.problems[0]).toEqual({ line: 991, field: "id", message: 'the id "i0" is already on line 1' });
  });

  test("A23 an id that is the number of another line clashes with it, in whatever order", async () => {
    expect(await problems('{"input":"a"}\n{"input":"b","id":1}')).toEqual([
      'line 2, field id: the id "1" is already on line 1',
    ]);
    expect(await problems('{"input":"a","id":"2"}\n{"input":"b"}')).toEqual([
      'line 2, field id: the id "2" is already on line 1',
    ]);
    expect(await problems('{"input":"a","id":"1"}\n{"input":"b","id":"3"}')).toEqual([]);
  });
});

describe("U08: an empty input is refused by one rule, wherever it comes from", () => {
  const EMPTY: readonly (readonly [string, string, Partial<CellOptions>, string])[] = [
    ["JSONL", '{"input":""}', {}, "field input: is empty"],
    ["JSONL, blank", '{"input":" \\n\\u00a0"}', {}, "field input: is empty"],
    ["JSONL, no part", '{"input":[]}', {}, "field input: is empty"],
    ["JSONL, blank parts", '{"input":[{"type":"text","text":" "}]}', {}, "field input: is empty"],
    ["JSONL, mapped", '{"q":""}', { map: parseMapping("input=q") }, "field input (from q): is empty"],
    ["CSV", "id,input\n1,\n", { format: "csv" }, "field input: is empty"],
    ["CSV, blank", 'id,input\n1,"  "\n', { format: "csv" }, "field input: is empty"],
    ["CSV, mapped", "id,q\n1,\n", { format: "csv", map: parseMapping("input=q") }, "field input (from q): is empty"],
    ["CSV, by its name", "input,x\n,1\n", { format: "csv", map: parseMapping("target=x") }, "field input: is empty"],
  ];
  test.each(EMPTY)("%s", async (_name, content, changes, problem) => {
    const line = changes.format === "csv" ? 2 : 1;
    expect(await problems(content, changes)).toEqual([`line ${line}, ${problem}`]);
  });

  test("objects of a program", async () => {
    await expect(collect(requestsOfObjects([{ input: "x" }, { input: "" }], options()))).rejects.toMatchObject({
      code: "invalid_input",
      message: expect.stringContaining("item 2, field input: is empty") as string,
    });
  });

  test("a part that is no text is content, whatever is in it", async () => {
    expect(await problems('{"input":[{"type":"text","text":""},{"type":"image","data":""}]}')).toEqual([]);
  });
});

describe("problems are told in plain words, with line and field", () => {
  test.each([
    ['{"inptu":"x"}', ["line 1, field input: is missing", 'line 1: unknown key "inptu" (did you mean "input"?)']],
    ['{"input":"x","zzzzzz":1}', ['line 1: unknown key "zzzzzz"']],
    ['{"input":5}', ["line 1, field input: must be text or a list"]],
    ['{"input":[]}', ["line 1, field input: is empty"]],
    ['{"input":[{"type":"text"}]}', [expect.stringContaining("line 1, field input[0]")]],
    ['{"input":"x","limits":{"timeoutMs":0}}', ["line 1, field limits.timeoutMs: must be at least 1"]],
    ['{"input":"x","limits":{"timeoutMs":1.5}}', ["line 1, field limits.timeoutMs: must be a whole number"]],
    ['{"input":"x","limits":{"maxSteps":"3"}}', ["line 1, field limits.maxSteps: must be a number"]],
    ['{"input":"x","limits":5}', ["line 1, field limits: must be an object"]],
    ['{"input":"x","limits":[]}', ["line 1, field limits: must be an object"]],
    [
      '{"input":"x","retry":{"afterToolCalls":"no"}}',
      ['line 1, field retry.afterToolCalls: must be "always" or "never"'],
    ],
    ['{"input":"x","target":{"a":1}}', ["line 1, field target: must be text, a number, true or false or a list"]],
    [
      '{"input":"x","expect":[{"type":"equal"}]}',
      ['line 1, field expect[0].type: must be "equals", "includes", "regex" or "number" (did you mean "equals"?)'],
    ],
    [
      '{"input":"x","batch":{"id":"b","sample":"s","epoch":1}}',
      ["line 1, field batch: is set by the submission, not by a line"],
    ],
    [
      '{"input":"x","options":{"n":9007199254740993}}',
      ["line 1, field options.n: the number 9007199254740993 cannot be kept exactly; write it as text, in quotes"],
    ],
    ['{"input":"x","__proto__":{"a":1}}', ['line 1: unknown key "__proto__"']],
    ['["a"]', ["line 1: must be a JSON object, one on each line"]],
    ["null", ["line 1: must be a JSON object, one on each line"]],
    ['{"input":"x"', [expect.stringContaining("line 1: is not valid JSON")]],
  ])("%s", async (line, told) => {
    expect(await problems(line)).toEqual(told);
  });

  test("an unknown agent: the nearest known one is named", async () => {
    expect(await problems('{"input":"x","agent":"ehco"}')).toEqual([
      'line 1, field agent: unknown agent "ehco" (did you mean "echo"?); known are echo, noop',
    ]);
    expect(await problems('{"input":"x"}', { agents: [] })).toEqual([
      "line 1, field agent: is missing; the line or the options must name one",
    ]);
    await expect(check('{"input":"x"}', { agents: ["noob"] })).rejects.toMatchObject({ code: "unknown_agent" });
    await expect(check('{"input":"x"}', { agents: ["echo", "echo"] })).rejects.toMatchObject({
      code: "invalid_request",
    });
    const nobody = { names: () => [], problem: () => undefined };
    expect(await problems('{"input":"x","agent":"any"}', { directory: nobody })).toEqual([]);
  });

  test("what an agent cannot do is a problem of the line that asks for it", async () => {
    const directory: CellOptions["directory"] = {
      names: () => ["echo", "noop"],
      problem: (agent, request) =>
        agent === "noop" && request.limits?.maxSteps !== undefined ? "noop cannot keep maxSteps" : undefined,
    };
    const content = '{"input":"a","limits":{"maxSteps":1}}\n{"input":"b"}';
    expect(await problems(content, { directory, agents: ["echo", "noop"] })).toEqual([
      "line 1: noop cannot keep maxSteps",
    ]);
    expect(await problems(content, { directory })).toEqual([]);
  });

  test("a session on two lanes is found before anything is stored", async () => {
    const lane = (agent: string, request: { lane?: string | undefined }) => request.lane ?? `lane-${agent}`;
    const directory = { ...options().directory, lane };
    expect(
      await problems('{"input":"a","session":"s"}\n{"input":"b","session":"s","lane":"other"}', { directory }),
    ).toEqual(['line 2, field session: the session "s" is on lane "lane-echo" (line 1) and cannot be on "other" too']);
    const fine = '{"input":"a","session":"s"}\n{"input":"b","session":"s"}\n{"input":"c","session":"s","agent":"noop"}';
    expect(await problems(fine, { directory })).toEqual([]);
  });

  test("a check that can never be run is a bad line", async () => {
    expect(await problems('{"input":"x"}', { expect: "equals" })).toEqual([
      'line 1, field expect[0]: the check "equals" has no value, and there is no target',
    ]);
    expect(await problems('{"input":"x","target":"(a"}', { expect: "regex" })).toEqual([
      expect.stringContaining("the pattern cannot be used"),
    ]);
    expect(await problems('{"input":"x","target":"a","expect":[]}', { expect: "number" })).toEqual([]);
  });

  test("all problems of the first hundred bad lines are shown, and the other lines are counted", async () => {
    const report = await check('{"inptu":"x","epoch":0}\n'.repeat(250));
    const perLine = report.problems.filter(({ line }) => line === 1).length;
    expect(perLine).toBeGreaterThan(1);
    expect(report.problems).toHaveLength(BAD_LINES_SHOWN * perLine);
    expect(report.problems.at(-1)?.line).toBe(100);
    expect(report.bad).toBe(250);
    expect(problemLines(report).at(-1)).toBe("and 150 more bad lines");
    expect(report.samples).toBe(0);
    expect(problemLines(await check("{}\n".repeat(101))).at(-1)).toBe("and 1 more bad line");
    expect(problemLines(await check("{}\n".repeat(100)))).toHaveLength(100);
  });

  test("C20 one bad line among many is named and the others are counted", async () => {
    const lines = Array.from({ length: 2000 }, (_, index) => (index === 1499 ? '{"input": "cu' : '{"input":"x"}'));
    const report = await check(lines.join("\n"));
    expect(report).toMatchObject({ lines: 2000, samples: 1999, bad: 1 });
    expect(report.problems.map((problem) => problem.line)).toEqual([1500]);
  });

  test("A17 D02 a request over 8 MB is a bad line, one just under it is not", async () => {
    const size = 8 * 1024 * 1024;
    expect(await problems(`{"input":"${"x".repeat(size - 2000)}"}`)).toEqual([]);
    expect(await problems(`{"input":"${"x".repeat(size - 500)}"}`)).toEqual([
      expect.stringMatching(/bytes of JSON; 8388608 is the most/),
    ]);
    expect(await problems(`{"input":"${"x".repeat(size)}"}\n{"input":"y"}`)).toEqual([
      "line 1: is longer than 8388608 bytes",
    ]);
  });

  test("a line that is nested without end is a bad line", async () => {
    const deep = `${"[".repeat(50_000)}${"]".repeat(50_000)}`;
    expect(await problems(`{"input":"x","metadata":{"deep":${deep}}}`)).toEqual([
      "line 1, field metadata: must be an object of values that JSON can carry",
    ]);
  });

  test("options that no line could be right with are refused at once", async () => {
    for (const changes of [{ epochs: 0 }, { epochs: 1.5 }, { limit: 0 }, { timeoutMs: -1 }, { epochs: Number.NaN }]) {
      await expect(check('{"input":"x"}', changes)).rejects.toMatchObject({ code: "invalid_request" });
    }
  });
});

describe("hostile content", () => {
  test("C42 lone surrogates are replaced before anything is stored", async () => {
    const [turn] = await read('{"input":"a\\ud83d","metadata":{"k\\ude00":["\\ud83d\\ude00"]}}');
    expect(turn).toMatchObject({ input: "a\ufffd", metadata: { "k\ufffd": ["😀"] } });
    expect((await collect(requestsOfObjects([{ input: "b\ud83d" }], options())))[0]?.input).toBe("b\ufffd");
  });

  test("D26 prototype keys are plain keys, and nothing global changes", async () => {
    const line =
      '{"input":"x","metadata":{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}},"options":{"__proto__":{"polluted":1}}}';
    const [turn] = await read(line);
    expect(JSON.stringify(turn?.metadata)).toContain('"__proto__":{"polluted":1}');
    expect(JSON.stringify(turn?.options)).toBe('{"__proto__":{"polluted":1}}');
    expect("polluted" in {}).toBe(false);
    expect(await problems('{"q":"x"}', map("input=constructor.name"))).toEqual([
      'line 1, field input (from constructor.name): the line has no column "constructor.name"',
    ]);
  });
});

describe("objects of a program", () => {
  test("become turns by the same rules", async () => {
    const turns = await collect(
      requestsOfObjects([{ input: "a" }, { input: "b", id: 7, agent: "noop" }], options({ epochs: 2 })),
    );
    expect(turns.map((turn) => turn.id)).toEqual(["b1:1:echo:1", "b1:1:echo:2", "b1:7:noop:1", "b1:7:noop:2"]);
    expect(turns[0]).toEqual((await read('{"input":"a"}'))[0]);
  });

  test("A29 what JSON cannot carry is refused, with the item and the field", async () => {
    const cases: readonly (readonly [unknown, RegExp])[] = [
      [
        { input: "x", options: { at: new Date() } },
        /^item 1, field options: must be an object of values that JSON can carry/,
      ],
      [{ input: "x", metadata: { n: Number.NaN } }, /field metadata/],
      [{ input: "x", target: 1n }, /field target/],
      [{ input: "x", id: 2 ** 53 }, /field id: a number as an id must be a whole one below 2\^53/],
      [{ input: Buffer.from("x") }, /field input/],
      [undefined, /must be a JSON object/],
      [{ input: "x".repeat(9 * 1024 * 1024) }, /bytes of JSON/],
    ];
    for (const [item, words] of cases) {
      await expect(collect(requestsOfObjects([item], options()))).rejects.toMatchObject({
        code: "invalid_input",
        message: expect.stringMatching(words) as string,
      });
    }
  });

  test("A23 an id that comes twice is refused and both items are named", async () => {
    const items = [
      { input: "a", id: "x" },
      { input: "b", id: "x" },
    ];
    await expect(collect(requestsOfObjects(items, options()))).rejects.toThrow(
      'item 2, field id: the id "x" is already on item 1',
    );
  });
});

test("a file that was changed between the check and the reading is noticed", async () => {
  await expect(read('{"input":"a"}\n{"input":')).rejects.toMatchObject({
    code: "invalid_input",
    message: expect.stringContaining("line 2") as string,
  });
});

test("A17 fifty thousand lines are streamed: nothing is held but the ids", async () => {
  const count = 50_000;
  const padding = "x".repeat(2000);
  const open = async function* lines() {
    for (let index = 0; index < count; index += 1) yield Buffer.from(`{"input":"${padding}","id":"sample-${index}"}\n`);
  };
  let turns = 0;
  let most = 0;
  const before = process.memoryUsage().heapUsed;
  for await (const turn of requestsOf(open, options())) {
    turns += turn.batch.epoch;
    if (turns % 5000 === 0) most = Math.max(most, process.memoryUsage().heapUsed - before);
  }
  expect(turns).toBe(count);
  // The input is 100 MB; its ids are about 8.
  expect(most).toBeLessThan(80 * 1024 * 1024);
}, 60_000);
