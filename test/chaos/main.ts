import { chaosOptions } from "./options.ts";
import { outcomeLine, violationText } from "./outcome.ts";
import { planOf } from "./plan.ts";
import { runChaos } from "./run.ts";

const options = chaosOptions(process.argv);
const startedMs = performance.now();
const say = (text: string): void => {
  process.stderr.write(`${((performance.now() - startedMs) / 1000).toFixed(1).padStart(6)} s  ${text}\n`);
};

if (options.plan) {
  process.stdout.write(`${JSON.stringify({ type: "plan", seed: options.seed, ...planOf(options) })}\n`);
} else {
  say(`seed ${options.seed}`);
  const outcome = await runChaos(options, say);
  for (const violation of outcome.violations) say(violationText(violation));
  if (outcome.violations.length > 0) process.exitCode = 1;
  if (outcome.violations.length > 0 || options.keep)
    say(
      `${outcome.violations.length} violations; the data is kept in ${outcome.folder}: Redis's folder, and truth.jsonl`,
    );
  process.stdout.write(`${outcomeLine(options.seed, outcome)}\n`);
}
