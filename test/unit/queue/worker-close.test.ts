import { describe, expect, it } from "vitest";
import { TurnWorker } from "../../../src/queue/worker.ts";
import type { TurnWorkerOptions } from "../../../src/queue/worker-options.ts";
import { SILENT } from "../../../src/telemetry/log.ts";

/** A worker without a lane: only what its start and close do beside the lanes. */
function worker(more: { publish?: () => Promise<void>; closeSpecs?: () => Promise<void> }): TurnWorker {
  const { publish = () => Promise.resolve(), closeSpecs } = more;
  const redis = {
    time: () => Promise.resolve(["0", "0"]),
    hset: () => Promise.resolve(1),
    hdel: () => Promise.resolve(1),
  };
  const parts = { redis, specs: [], directory: { publish }, log: SILENT, concurrency: 1, closeSpecs };
  return new TurnWorker(parts as unknown as TurnWorkerOptions);
}

describe("the start and the close of a worker", () => {
  it("invariant 12, bounded: an agent that cannot be ended does not hold up the close beyond its limit", async () => {
    const one = worker({ closeSpecs: () => new Promise(() => undefined) });
    await one.start();
    expect(await one.close({ limitMs: 30 })).toEqual({ complete: false, abandoned: 0, turns: [] });
  });

  it("invariant 10: a limit beyond what a timer takes, or none, does not end what runs at once", async () => {
    for (const limitMs of [2 ** 31, Number.POSITIVE_INFINITY]) {
      let end = (): void => undefined;
      const one = worker({ closeSpecs: () => new Promise((resolve) => (end = resolve)) });
      await one.start();
      const closed = one.close({ limitMs });
      // Both would have been over.
      await new Promise((resolve) => setTimeout(resolve, 20));
      end();
      expect(await closed).toEqual({ complete: true, abandoned: 0, turns: [] });
    }
  });

  it("ends what its agents keep warm once, also when it was never started or their end fails", async () => {
    let ends = 0;
    const one = worker({ closeSpecs: () => Promise.reject(new Error(`end ${(ends += 1)}`)) });
    expect(await one.close({ limitMs: 1000 })).toEqual({ complete: true, abandoned: 0, turns: [] });
    await one.close({ limitMs: 1000 });
    expect(ends).toBe(1);
  });

  it("a start that failed can be tried again", async () => {
    let tries = 0;
    const one = worker({
      publish: () => ((tries += 1) === 1 ? Promise.reject(new Error("Redis is away")) : Promise.resolve()),
    });
    await expect(one.start()).rejects.toThrow("Redis is away");
    await one.start();
    await one.start();
    expect(tries).toBe(2);
    await one.close({ limitMs: 1000 });
  });
});
