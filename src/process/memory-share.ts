import { totalmem } from "node:os";

const BYTES_PER_MIB = 1024 * 1024;
/** What of the machine's memory the programs of all attempts are to hold together. */
const FOR_AGENTS = 0.75;
/** An attempt's share is not less than this, in MiB: few use what they may, and many a program needs as much to start. */
const LEAST_MB = 1024;

/** MiB that this process may use: the machine's memory, or its cgroup's limit where that is lower. */
export function machineMemoryMb(): number {
  // 0 or far more than there is where nothing limits it.
  const limit = process.constrainedMemory();
  return (limit > 0 ? Math.min(totalmem(), limit) : totalmem()) / BYTES_PER_MIB;
}

/**
 * What one attempt may hold where nobody said it: three quarters of the memory, shared by all that may run at once, but
 * no less than 1 GiB, or than half of it on a small machine.
 */
export function shareOf(memoryMb: number, slots: number): number {
  const all = memoryMb * FOR_AGENTS;
  return Math.floor(Math.max(all / Math.max(1, slots), Math.min(LEAST_MB, all / 2)));
}

/** The slots of the workers of this process, and what one of them may hold. */
export class MemoryShare {
  readonly #memoryMb = machineMemoryMb();
  #slots = 0;

  /** A worker of so many attempts at once opens; the answer is called when it is closed. */
  use(slots: number): () => void {
    this.#slots += slots;
    let used = true;
    return () => {
      if (used) this.#slots -= slots;
      used = false;
    };
  }

  get defaultMb(): number {
    return shareOf(this.#memoryMb, this.#slots);
  }
}
