import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files that take half a minute and more, most of it waiting. */
const LONG: readonly string[] = [
  "outages/outages",
  "crash/crash-points",
  "docs/snippets",
  "redis-embedded",
  "queue/durable",
  "cli/interrupt",
  "cli/faults",
  "cli/run",
  "cli/commands",
  "agents/module",
  "queue/failures",
  // Not beside the crash points: both start many processes.
  "chaos/chaos",
  "simulation/simulation",
  "cli/examples",
];

/** Where the time of a run is not known yet, a long file that comes last would be waited for alone. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const place = ({ moduleId }: TestSpecification): number => {
      const at = LONG.findIndex((name) => moduleId.endsWith(`/${name}.test.ts`));
      return at === -1 ? LONG.length : at;
    };
    return sorted.toSorted((a, b) => place(a) - place(b));
  }
}
