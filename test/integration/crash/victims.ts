import { fork, type ChildProcess } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";
import type { Orders, Said } from "../../fixtures/crash/victim.ts";

/** Makes one file of the victims' program and all that it needs: it starts in a third of the time. */
export async function bundleVictim(folder: string): Promise<string> {
  const file = join(folder, "victim.mjs");
  const bundle = await rolldown({
    input: "test/fixtures/crash/victim.ts",
    platform: "node",
    plugins: [
      {
        name: "keep-places",
        transform: (code, id) =>
          id.endsWith(".ts") ? code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href)) : undefined,
      },
    ],
  });
  await bundle.write({ file, format: "esm", codeSplitting: false });
  await bundle.close();
  return file;
}

/** A victim that plays. */
export interface Victim {
  /** Resolves when it has done all that it was told; never when it dies before. */
  readonly done: Promise<void>;
  /** 0 when it closed without a death, else the exit code or signal of its process. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** Lets it close. */
  release(): void;
}

/**
 * Victims that share a process, since its start takes longer than all they do in it. It starts when each of them has
 * its orders or has gone, and dies when each has come to its point or is over.
 */
export class Gang {
  readonly #program: string;
  readonly #url: string;
  readonly #size: number;
  readonly #waiting: { readonly orders: Orders; readonly start: (victim: Victim) => void }[] = [];
  #gone = 0;

  constructor(program: string, url: string, size: number) {
    this.#program = program;
    this.#url = url;
    this.#size = size;
  }

  /** Resolves when the process has been started. */
  join(orders: Orders): Promise<Victim> {
    return new Promise((start) => {
      this.#waiting.push({ orders, start });
      this.#startWhenComplete();
    });
  }

  /** One of them needs no process any more, without having joined. */
  leave(): void {
    this.#gone += 1;
    this.#startWhenComplete();
  }

  #startWhenComplete(): void {
    if (this.#waiting.length === 0 || this.#waiting.length + this.#gone < this.#size) return;
    const all = this.#waiting.map(({ orders }) => orders);
    const child = fork(this.#program, [this.#url, JSON.stringify(all)], {
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    child.setMaxListeners(0);
    for (const [party, { start }] of this.#waiting.entries()) start(victimOf(child, party));
  }
}

function victimOf(child: ChildProcess, party: number): Victim {
  const said = (what: Said["what"]): Promise<void> =>
    new Promise((resolve) =>
      child.on("message", (message) => {
        const { party: whose, what: heard } = message as Said;
        if (whose === party && heard === what) resolve();
      }),
    );
  const exited = new Promise<number | NodeJS.Signals>((resolve) =>
    child.once("exit", (code, signal) => resolve(signal ?? code ?? 0)),
  );
  return {
    done: said("done"),
    ended: Promise.race([said("closed").then(() => 0), exited]),
    release: () => child.connected && child.send(party, () => undefined),
  };
}
