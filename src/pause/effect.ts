/** Doors through which a process changes something outside of itself, apart from the scripts, which have one each. */
export const DOORS = [
  "multi:submit",
  "multi:retry",
  "multi:bring_back",
  "bull:listen",
  "bull:fetch",
  "bull:complete",
  "bull:fail",
  "bull:delay",
  "bull:wait",
  "bull:locks",
  "bull:stalled",
  "bull:progress",
  "bull:meta",
  "bull:trim",
  "bull:remove",
  "session:bind",
  "session:unbind",
  "session:rebind",
  "lane:announce",
  "lane:limits",
  "lane:pass",
  "agents:publish",
  "agents:drop",
  "workers:tell",
  "workers:leave",
  "workers:drop",
  "processes:sweep",
] as const;

/** `script:NAME` stands for a call of that script of the ledger. */
export type Door = (typeof DOORS)[number] | `script:${string}`;

/** An instant just before something is changed, or just after that was answered. */
export type Point = `${"before" | "after"}:${Door}`;

/** Told of each point before the process goes on; what it answers is awaited. */
export type Probe = (point: Point) => Promise<void> | void;

let probe: Probe | undefined;

/**
 * Tests only: has every point of this process reported from now on, so that a test can stop or kill
 * it at an instant instead of sleeping to hit one. Undefined ends that.
 */
export function installProbe(next: Probe | undefined): void {
  probe = next;
}

/** Makes a call that changes something outside of this process. Without a probe it is the call and nothing else. */
export function effect<T>(door: Door, call: () => Promise<T>): Promise<T> {
  return probe === undefined ? call() : observed(probe, door, call);
}

async function observed<T>(told: Probe, door: Door, call: () => Promise<T>): Promise<T> {
  await told(`before:${door}`);
  const answer = await call();
  await told(`after:${door}`);
  return answer;
}
