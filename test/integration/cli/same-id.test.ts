import { afterAll, beforeAll, expect, test } from "vitest";
import { openTurnq } from "../../../src/app.ts";
import type { Turnq } from "../../../src/turnq.ts";
import { CliFolder, jsonLines } from "./cli-folder.ts";

/** A turn of the batch `both`, and a batch of its own. */
const ID = "both:a:echo:1";

let folder: CliFolder;
let turnq: Turnq;
beforeAll(async () => {
  folder = await CliFolder.make();
  const { url } = await folder.keepRedis();
  turnq = await openTurnq({ redis: url, agents: [{ name: "echo", type: "echo" }] });
  for (const batch of ["both", ID]) await turnq.submitMany([{ id: "a", input: "hello" }], { batch, agents: ["echo"] });
});
afterAll(async () => {
  await turnq.close();
  await folder.remove();
});

async function settledOf(batch: string): Promise<number> {
  return (await turnq.batch(batch).progress()).states.settled;
}

test.each([
  ["cancel", []],
  ["retry", ["--failed"]],
])(
  "%s of an id that a batch and a turn have touches neither, and says how the turn is named",
  async (name, options) => {
    const { code, stdout, stderr } = await folder.run([name, ID, ...options]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(`${ID}: there is a batch and a turn with this id`);
    expect(stderr).toContain("--lane echo");
    expect([await settledOf("both"), await settledOf(ID)]).toEqual([0, 0]);
  },
);

test("with --lane it is the turn, and the batch of this id stays as it is", async () => {
  const { code, stdout } = await folder.run(["cancel", ID, "--lane", "echo", "--json"]);
  expect(code).toBe(0);
  expect(jsonLines(stdout)).toEqual([{ type: "cancelled", turn: ID, kind: "settled" }]);
  expect([await settledOf("both"), await settledOf(ID)]).toEqual([1, 0]);
});
