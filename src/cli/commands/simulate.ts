import { once } from "node:events";
import { resolve } from "node:path";
import { Option, type Command } from "commander";
import type { ModelSettingsInput } from "../../simulator/model-settings.ts";
import type { CommandContext } from "../context.ts";
import { EXIT } from "../failure-text.ts";
import { OPTIONS } from "../option-parsers.ts";

interface SimulateOptions extends Omit<ModelSettingsInput, "latencyMs" | "ratePerSecond" | "faults"> {
  readonly answers?: string | undefined;
  readonly port: number;
  readonly latencyMs?: string | undefined;
  readonly rate?: string | undefined;
  readonly fault?: string | undefined;
  readonly model?: readonly string[] | undefined;
  readonly json?: boolean | undefined;
  readonly quiet?: boolean | undefined;
}

/** The model that is served when none is named: its name says what it is. */
const MODEL = "simulated-1";

/** Adds `turnq simulate`. */
export function addSimulate(program: Command, act: (options: SimulateOptions) => Promise<void>): void {
  program
    .command("simulate")
    .description(
      "Serves a simulated, OpenAI-compatible model on this machine until a signal. It answers from a file, right as often as asked, and makes faults on demand. GET /served says what it served.",
    )
    .addOption(new Option("--answers <file>", 'right answers, JSONL of {"input", "answer"}'))
    .addOption(OPTIONS.simulated.accuracy())
    .addOption(OPTIONS.simulated.port())
    .addOption(OPTIONS.simulated.seed())
    .addOption(new Option("--latency-ms <a..b>", "time before the first token, from..to"))
    .addOption(new Option("--rate <n/s>", "requests per second; more are answered with 429"))
    .addOption(
      new Option(
        "--fault <name=share,…>",
        "shares of requests that meet a fault: a status, hang, cut, slow (429=0.05,cut=0.02)",
      ),
    )
    .addOption(OPTIONS.simulated.model())
    .addOption(OPTIONS.json())
    .addOption(OPTIONS.quiet())
    .addHelpText(
      "after",
      `
Example:
  $ turnq simulate --answers answers.jsonl --port 8080 --fault 429=0.05,cut=0.02

Next: an agent {"type": "chat", "baseUrl": "http://127.0.0.1:8080/v1", "model": "${MODEL}"} in turnq.config.json.`,
    )
    .action(act);
}

/** Serves until a signal. */
export async function simulate(context: CommandContext, options: SimulateOptions): Promise<number> {
  const { output } = context;
  const [{ startSimulator }, { readAnswers }, { checkedSettings, faultsOf, latencyOf, rateOf }, { modelSettings }] =
    await Promise.all([
      import("../../simulator/simulator.ts"),
      import("../../simulator/answers.ts"),
      import("../../simulator/settings-text.ts"),
      import("../../simulator/model-settings.ts"),
    ]);
  const { accuracy, seed, latencyMs, rate, fault } = options;
  const settings = modelSettings(
    checkedSettings({
      accuracy,
      seed,
      ...(latencyMs === undefined ? {} : { latencyMs: latencyOf(latencyMs) }),
      ...(rate === undefined ? {} : { ratePerSecond: rateOf(rate) }),
      ...(fault === undefined ? {} : { faults: faultsOf(fault) }),
    }),
  );
  const answers =
    options.answers === undefined
      ? new Map<string, string>()
      : await readAnswers(resolve(context.cwd, options.answers));
  const names = options.model ?? [MODEL];
  const interruption = context.interruptible();
  const { url, served, close } = await startSimulator({
    models: Object.fromEntries(names.map((name) => [name, settings])),
    answers,
    port: options.port,
  });
  try {
    if (options.json === true) await output.object({ type: "simulator", simulated: true, url, models: names });
    else await output.line(`${url}/v1`);
    if (options.quiet !== true) {
      output.note(`a SIMULATED model server, no real model: ${names.join(", ")}; ${answers.size} answers known`);
      output.note(`what it served: ${url}/served. Ctrl-C ends it`);
      output.note(
        `next: an agent {"type": "chat", "baseUrl": "${url}/v1", "model": "${names[0]}"} in turnq.config.json`,
      );
    }
    if (!interruption.signal.aborted) await once(interruption.signal, "abort");
    const { requests, usage } = served();
    if (options.quiet !== true)
      output.note(
        `served ${requests} requests: ${usage.inputTokens} + ${usage.cacheReadTokens} cached tokens in, ${usage.outputTokens} out`,
      );
    return EXIT.ok;
  } finally {
    await close();
  }
}
