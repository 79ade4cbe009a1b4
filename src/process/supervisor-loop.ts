import type { Readable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { TIMER_MAX_MS } from "../domain/limits.ts";
import { LineSplitter } from "./json-lines.ts";
import { killTree } from "./kill-tree.ts";
import { matchesMark } from "./mark.ts";
import { MemoryWatch } from "./memory-watch.ts";
import { SupervisorLine, type SupervisorReport, type Watch } from "./supervisor-lines.ts";

/** Whose supervisor this is. */
export interface SupervisorPlace {
  readonly store: string;
  readonly worker: string;
  readonly workerPid: number;
}

/** How long after the deadline it steps in: the worker, when its loop is free, is first. */
const MARGIN_MS = 50;
/** A process that the worker forked as it died may take its mark on only after the first sweep. */
const LAST_LOOK_MS = 100;
const DEATH_ROUNDS = 15;

/**
 * The supervisor of one worker. It kills what is past its deadline, also when the worker's loop is
 * blocked; when its input ends, the worker is gone (also by `kill -9` of its whole group): it kills
 * everything of that worker and returns.
 */
export async function superviseUntilEnd(
  input: Readable,
  place: SupervisorPlace,
  tell: (report: SupervisorReport) => void,
): Promise<void> {
  const watched = new Map<number, { readonly watch: Watch; readonly timer: NodeJS.Timeout | undefined }>();
  const memory = new MemoryWatch<Watch>((watch, usedMb) => {
    // First the word: whoever sees the death is to know the reason.
    tell({ type: "over_memory", id: watch.id, usedMb });
    void kill(watch, place);
  });
  const forget = (id: number): void => {
    clearTimeout(watched.get(id)?.timer);
    memory.forget(id);
    watched.delete(id);
  };
  const splitter = new LineSplitter({
    onLine: (text) => {
      const line = parse(text);
      if (line === undefined) return;
      forget(line.id);
      if (line.type !== "watch") return;
      watched.set(line.id, { watch: line, timer: deadline(line, place) });
      memory.watch(line);
    },
  });
  await readAll(input, splitter);
  const groups = [...watched.values()].map(({ watch }) => watch.pid);
  const marks = new Set([...watched.values()].map(({ watch }) => watch.mark));
  for (const id of watched.keys()) forget(id);
  const marked = (mark: string): boolean =>
    marks.has(mark) || matchesMark({ store: place.store, worker: place.worker }, mark);
  for (let round = 0; round < DEATH_ROUNDS; round += 1) {
    const { survivors } = await killTree({ groups, marked });
    if (survivors.length === 0) break;
  }
  await pause(LAST_LOOK_MS);
  await killTree({ marked });
}

function deadline(watch: Watch, place: SupervisorPlace): NodeJS.Timeout | undefined {
  const dueMs = watch.dueMs === undefined ? Number.POSITIVE_INFINITY : watch.dueMs + MARGIN_MS;
  // A deadline of more than 24 days is the worker's alone.
  if (dueMs > TIMER_MAX_MS) return undefined;
  return setTimeout(() => void kill(watch, place), dueMs);
}

async function kill({ pid, mark }: Watch, { workerPid }: SupervisorPlace): Promise<void> {
  await killTree({ groups: [pid], marked: (other) => other === mark, spared: [workerPid] });
}

function parse(text: string): SupervisorLine | undefined {
  try {
    return SupervisorLine.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

function readAll(input: Readable, splitter: LineSplitter): Promise<void> {
  return new Promise((resolve) => {
    input.on("data", (chunk: Buffer) => splitter.push(chunk));
    for (const event of ["end", "close", "error"]) input.once(event, () => resolve());
  });
}
