import { fork } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { rolldown } from "rolldown";
import type { Orders } from "../../fixtures/crash/victim.ts";

/** Makes one file of the victim's program and all that it needs: it starts in a third of the time. */
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

/** A victim that runs. */
export interface Victim {
  /** Resolves when it has done all that it was told; never when it dies before. */
  readonly done: Promise<void>;
  /** Its exit code, or the signal that it died of. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** Lets it close and end. */
  release(): void;
}

export function startVictim(program: string, orders: Orders): Victim {
  const child = fork(program, [JSON.stringify(orders)], { stdio: ["ignore", "ignore", "inherit", "ipc"] });
  const ended = new Promise<number | NodeJS.Signals>((resolve) =>
    child.once("exit", (code, signal) => resolve(signal ?? code ?? 0)),
  );
  const done = new Promise<void>((resolve) => child.once("message", () => resolve()));
  return { done, ended, release: () => child.connected && child.send("end", () => undefined) };
}
