import { failure } from "../../domain/failure.ts";
import { ProcessFailure } from "../../process/process-failure.ts";
import type { ProcessEnd } from "../../process/supervised-process.ts";

/** What a runner holds beside its heap of old objects, in MiB: Node itself, its code, and young objects. */
const BESIDE_MB = 96;

/**
 * The size of the heap for a runner that may hold so much, in MiB. V8 clears up only as far as its heap's size asks for it:
 * with one of gigabytes a turn would be killed for what nobody needs any more.
 */
export function heapMb(memoryMb: number): number {
  return Math.max(Math.floor(memoryMb / 3), memoryMb - BESIDE_MB);
}

const SAID_BY_V8 = /heap out of memory|Reached heap limit/;
const ABORTED: ReadonlySet<string> = new Set(["SIGABRT", "SIGTRAP", "SIGILL"]);

/** Whether V8 ended the process because its heap was full: it says so and aborts. */
export function isHeapDeath({ code, signal }: ProcessEnd, stderr: string): boolean {
  const aborted = signal === null ? code !== null && code > 128 : ABORTED.has(signal);
  return aborted && SAID_BY_V8.test(stderr);
}

export function heapFull(memoryMb: number): ProcessFailure {
  const what = `its heap was full: limits.maxMemoryMb of ${memoryMb} leaves ${heapMb(memoryMb)} MB for it`;
  return new ProcessFailure("agent_crash", failure("out_of_memory", what));
}
