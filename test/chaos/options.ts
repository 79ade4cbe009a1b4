import { Command, InvalidArgumentError } from "commander";

/** What a run of the harness is told. */
export interface ChaosOptions {
  /** How long faults happen, in seconds; the store drains afterwards. */
  readonly seconds: number;
  readonly workers: number;
  readonly turns: number;
  readonly sessions: number;
  readonly seed: number;
  /** False: nothing is killed, so that no spend may be missing. */
  readonly kills: boolean;
  /** Leases and BullMQ's locks of 2 s instead of 8 s. */
  readonly quick: boolean;
  /** Workers tell what they do on stderr. */
  readonly verbose: boolean;
  /** The data is kept also when all is well. */
  readonly keep: boolean;
  /** Only prints the plan. */
  readonly plan: boolean;
}

const SEED_MAX = 2 ** 32 - 1;

/** Reads the arguments, as `process.argv` has them. Ends the process for `--help` and for what is wrong. */
export function chaosOptions(argv: readonly string[]): ChaosOptions {
  const command = new Command("chaos")
    .description(
      "Workers, Redis and their connections are killed, cut, frozen and filled while turns run; then every turn is looked at.",
    )
    .option("--seconds <n>", "how long faults happen; the store drains afterwards", whole(1, 86_400), 25)
    .option("--workers <n>", "worker processes", whole(2, 64), 4)
    .option("--turns <n>", "turns that are submitted in that time", whole(1, 1_000_000), 300)
    .option("--sessions <n>", "sessions among which half of them are spread", whole(1, 10_000), 12)
    .option("--seed <n>", "of the plan: the same seed and options, the same plan", whole(0, SEED_MAX))
    .option("--no-kills", "no process is killed: then no spend may be missing")
    .option("--quick", "leases of 2 s instead of 8 s, for short runs", false)
    .option("--verbose", "what workers log goes to stderr", false)
    .option("--keep", "keep the data also when all is well", false)
    .option("--plan", "print the plan and do nothing", false)
    .addHelpText(
      "after",
      "\nThe last line of stdout is the outcome, see docs/chaos.md. Exit code 0: all is well, 1: something is broken.\n\n" +
        "Example:\n  $ npm run chaos -- --seconds 60 --workers 6 --seed 7\n",
    )
    .allowExcessArguments(false);
  const { seed, ...options } = command.parse([...argv]).opts<Omit<ChaosOptions, "seed"> & { seed?: number }>();
  return { ...options, seed: seed ?? Math.floor(Math.random() * SEED_MAX) };
}

function whole(low: number, high: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < low || value > high)
      throw new InvalidArgumentError(`It must be a whole number from ${low} to ${high}.`);
    return value;
  };
}
