import { describe, expect, it } from "vitest";
import { killTree, killTreeSync, signal, targetsIn, type KillDeps } from "../../../src/process/kill-tree.ts";
import type { ProcessRow, ProcessTable } from "../../../src/process/process-table.ts";

function row(pid: number, ppid: number, pgid: number, dead = false): ProcessRow {
  return { pid, ppid, pgid, dead };
}

function table(rows: readonly ProcessRow[], marks: Readonly<Record<number, string>> = {}): ProcessTable {
  return { list: () => [...rows], marksOf: (pid) => (marks[pid] === undefined ? [] : [marks[pid]]) };
}

describe("who is killed", () => {
  const rows = [
    row(1, 0, 1),
    row(100, 1, 100), // the worker
    row(200, 100, 200), // the program
    row(201, 200, 200),
    row(202, 201, 202), // left its group, cleared its environment
    row(300, 1, 300), // an escaped grandchild with the mark
    row(301, 300, 301),
    row(400, 1, 200, true), // a zombie of the group
    row(500, 100, 500), // the supervisor
    row(600, 1, 600), // somebody else
  ];

  it("is the group, who bears the mark, and all that descends from them; no zombie", () => {
    const found = targetsIn(table(rows, { 300: "m", 600: "other" }), { groups: [200], marked: (mark) => mark === "m" });
    expect(found).toEqual([200, 201, 202, 300, 301]);
  });

  it("is never pid 1, this process or one that is spared, nor what is known only through them", () => {
    const marked = (): boolean => true;
    const marks = Object.fromEntries(rows.map(({ pid }) => [pid, "m"]));
    const own = [...rows, row(process.pid, 1, 700)];
    expect(targetsIn(table(own, { ...marks, [process.pid]: "m" }), { marked, spared: [100, 500] })).toEqual([
      200, 201, 202, 300, 301, 600,
    ]);
    expect(targetsIn(table(rows), { groups: [100], spared: [100, 500] })).toEqual([]);
  });

  it("takes descendants below a dead parent too", () => {
    expect(targetsIn(table([row(10, 1, 10, true), row(11, 10, 11)]), { groups: [10] })).toEqual([11]);
  });

  it("a cycle of parents ends", () => {
    expect(targetsIn(table([row(10, 11, 10), row(11, 10, 11)]), { groups: [10] })).toEqual([10, 11]);
  });
});

describe("a kill", () => {
  /** Each kill of the last one alive makes another one, so many times. */
  function hydra(heads: number): { deps: KillDeps; kills: number[] } {
    let alive = [row(10, 1, 10)];
    const kills: number[] = [];
    const kill = (pid: number): void => {
      kills.push(pid);
      if (pid < 0) return;
      alive = alive.filter((one) => one.pid !== pid);
      if (kills.filter((one) => one > 0).length < heads) alive.push(row(pid + 1, 1, 10));
    };
    return { deps: { table: { list: () => [...alive], marksOf: () => [] }, kill }, kills };
  }

  it("goes on until a look finds nobody, and strikes the whole group first", async () => {
    const { deps, kills } = hydra(3);
    expect(await killTree({ groups: [10] }, deps)).toEqual({ killed: 3, survivors: [] });
    expect(kills).toEqual([-10, 10, -10, 11, -10, 12]);
  });

  it("waits for one that is about to end and bears no mark any more", async () => {
    let looks = 0;
    const list = (): ProcessRow[] => {
      looks += 1;
      return looks <= 3 ? [row(10, 1, 10)] : [row(10, 1, 10, true)];
    };
    const marksOf = (): readonly string[] => (looks === 1 ? ["m"] : []);
    const deps = { table: { list, marksOf }, kill: () => undefined };
    expect(await killTree({ marked: (mark) => mark === "m" }, deps)).toEqual({ killed: 1, survivors: [] });
    expect(looks).toBe(4);
  });

  it("is bounded, and says who survived", () => {
    const { deps } = hydra(Number.POSITIVE_INFINITY);
    expect(killTreeSync({ groups: [10] }, deps).survivors).toHaveLength(1);
  });

  it("C12: strikes the group and looks again when it could not look", async () => {
    let looks = 0;
    const kills: number[] = [];
    const list = (): ProcessRow[] => {
      looks += 1;
      if (looks < 3) throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
      return [];
    };
    const deps = { table: { list, marksOf: () => [] }, kill: (pid: number) => void kills.push(pid) };
    expect(await killTree({ groups: [10] }, deps)).toMatchObject({ survivors: [] });
    expect(looks).toBe(3);
    expect(kills).toContain(-10);
  });

  it("sends no signal to groups or everybody by mistake", () => {
    for (const pid of [0, 1, -1, Number.NaN]) expect(signal(pid, "SIGKILL")).toBe(false);
  });
});
