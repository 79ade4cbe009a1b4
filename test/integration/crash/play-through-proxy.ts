import { messageOf } from "../../../src/domain/error.ts";
import { Party, type Act } from "../../fixtures/crash/party.ts";
import { openRedisProxy, type RedisProxy } from "../../redis-proxy.ts";
import type { Scene } from "../queue/scene.ts";
import { broken, resultsOf } from "./invariants.ts";
import { ended, takeOver } from "./run-scenario.ts";
import type { Scenario } from "./scenarios.ts";
import { stageOf } from "./stage.ts";

let runs = 0;

export interface PlayedThroughProxy {
  /** True when what was to happen to the connection happened. */
  readonly cut: boolean;
  /** What does not hold, in words. */
  readonly problems: readonly string[];
}

/**
 * Plays a scenario in this process, its connections through a proxy that `prepare` is given before
 * there are any. Nobody dies: the worker that begins a turn ends it.
 */
export async function playThroughProxy(
  { scene, folder, port }: { readonly scene: Scene; readonly folder: string; readonly port: number },
  scenario: Scenario,
  prepare: (proxy: RedisProxy) => Promise<void> | undefined,
): Promise<PlayedThroughProxy> {
  runs += 1;
  const stage = stageOf(scene, `cut-${runs}`, folder);
  const proxy = await openRedisProxy(port);
  let cut = false;
  try {
    await scenario.before?.(stage);
    void prepare(proxy)?.then(() => (cut = true));
    const party = await Party.open(proxy.url, stage.lane, "cut");
    const acts = scenario.acts(stage);
    try {
      for (const act of acts) await tried(party, act);
      await scenario.during?.(stage);
      const works = acts.some((act) => act.do === "work") && !acts.some((act) => act.do === "close");
      if (works) await ended(stage, scenario);
      if (works) await scenario.finally?.(stage);
    } finally {
      await party.close();
    }
    const early = await resultsOf(stage, scenario);
    await scenario.again?.(stage);
    await takeOver(stage, scenario);
    return { cut, problems: await broken(stage, scenario, early) };
  } catch (error) {
    return { cut, problems: [error instanceof Error ? (error.stack ?? messageOf(error)) : messageOf(error)] };
  } finally {
    await proxy.close();
  }
}

/** Does something again that was not answered, as its caller would. */
async function tried(party: Party, act: Act): Promise<void> {
  try {
    await party.act(act);
  } catch {
    await party.act(act);
  }
}
