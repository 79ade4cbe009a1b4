import { TurnqError } from "../domain/error.ts";
import { fieldProblem, problemsOf } from "../parse/problem.ts";
import { ModelSettingsInput } from "./model-settings.ts";

/** Reads `5..20` or `5`. Throws `invalid_request`. */
export function latencyOf(text: string): [number, number] {
  const found = /^(\d+(?:\.\d+)?)(?:\.\.(\d+(?:\.\d+)?))?$/.exec(text.trim());
  if (found === null) throw wrong("latency", text, "It is 5..20, in ms.");
  return [Number(found[1]), Number(found[2] ?? found[1])];
}

/** Reads `20/s` or `20`. Throws `invalid_request`. */
export function rateOf(text: string): number {
  const found = /^(\d+(?:\.\d+)?)(?:\/s)?$/.exec(text.trim());
  if (found === null) throw wrong("rate", text, "It is 20/s.");
  return Number(found[1]);
}

/** Reads `429=0.05,hang=0.01`. Throws `invalid_request`. */
export function faultsOf(text: string): Record<string, number> {
  return Object.fromEntries(pairs(text).map(([name, value]) => [name, numberOf(name, value)]));
}

/** Reads `accuracy=0.9,seed=3,latency=5..20,rate=20/s,429=0.05,cut=0.02`: what is no setting is a fault. Throws `invalid_request`. */
export function settingsOfText(text: string): ModelSettingsInput {
  const settings: Record<string, unknown> = {};
  const faults: Record<string, number> = {};
  for (const [name, value] of pairs(text)) {
    if (name === "accuracy" || name === "seed") settings[name] = numberOf(name, value);
    else if (name === "latency") settings["latencyMs"] = latencyOf(value);
    else if (name === "rate") settings["ratePerSecond"] = rateOf(value);
    else faults[name] = numberOf(name, value);
  }
  return checkedSettings({ ...settings, ...(Object.keys(faults).length > 0 ? { faults } : {}) });
}

/** The settings, checked. Throws `invalid_request`. */
export function checkedSettings(settings: object): ModelSettingsInput {
  const parsed = ModelSettingsInput.safeParse(settings);
  if (parsed.success) return parsed.data;
  const problems = problemsOf(parsed.error, settings, ModelSettingsInput).map(fieldProblem);
  throw new TurnqError("invalid_request", problems.join("; "), {
    where: "the simulator",
    hint: "Faults are statuses from 400 to 599, hang, cut and slow, each with a share from 0 to 1.",
  });
}

function pairs(text: string): [name: string, value: string][] {
  return text.split(",").map((pair) => {
    const at = pair.indexOf("=");
    if (at < 1) throw wrong("setting", pair, "It is name=value, several are separated by commas.");
    return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
  });
}

function numberOf(name: string, text: string): number {
  const number = Number(text);
  if (text === "" || !Number.isFinite(number)) throw wrong(name, text, "It must be a number.");
  return number;
}

function wrong(what: string, text: string, hint: string): TurnqError {
  return new TurnqError("invalid_request", `"${text}" is no ${what}`, { where: "the simulator", hint });
}
