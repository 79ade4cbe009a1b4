import { CommanderError } from "commander";
import { expect, test } from "vitest";
import { chosenCommand } from "../../../src/cli/program.ts";

interface Tried {
  readonly exitCode: number | undefined;
  readonly out: string;
  readonly err: string;
}

async function tried(...argv: string[]): Promise<Tried> {
  let [out, err] = ["", ""];
  try {
    await chosenCommand(argv, { out: (text) => (out += text), err: (text) => (err += text) });
    return { exitCode: undefined, out, err };
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    return { exitCode: error.exitCode, out, err };
  }
}

test.each([
  [
    "run",
    "f",
    "--agent",
    "a",
    "--agent",
    "b",
    "--epochs",
    "3",
    "--concurrency",
    "8",
    "--batch",
    "x/1",
    "--json",
    "--quiet",
  ],
  [
    "run",
    "-",
    "--map",
    "input=question,target=answer",
    "--expect",
    "number",
    "--limit",
    "5",
    "--sample",
    "a",
    "--timeout",
    "500",
  ],
  ["run", "f", "--threshold", "0.8", "--fail-on-error", "--out", "o", "--messages", "--config", "c", "--lane", "l"],
  ["submit", "f", "--batch", "x"],
  ["work", "--agent", "a"],
  ["results", "b", "--format", "jsonl", "--messages", "--out", "o"],
  ["show", "b:1:a:1", "--lane", "l", "--json"],
  ["retry", "b", "--failed"],
  ["redis"],
  ["doctor", "--fix"],
])("%s %s is understood", async (...argv) => {
  expect(await tried(...argv)).toMatchObject({ exitCode: undefined, err: "" });
});

test.each([
  ["an unknown command", ["runn"], "unknown command 'runn'\n(Did you mean run?)"],
  ["an unknown option", ["run", "f", "--agnet", "a"], "unknown option '--agnet'\n(Did you mean --agent?)"],
  ["no file", ["run"], "missing required argument 'file'"],
  ["two files", ["run", "a", "b"], "too many arguments"],
  ["a number that is none", ["run", "f", "--epochs", "many"], "It must be a whole number of at least 1."],
  ["a number that is too small", ["run", "f", "--concurrency", "0"], "It must be a whole number of at least 1."],
  [
    "a number that is too large",
    ["run", "f", "--limit", "99999999999999999999"],
    "It must be a whole number of at least 1.",
  ],
  ["too many epochs", ["run", "f", "--epochs", "99999999999"], "It must be at most 10000."],
  ["a share above 1", ["run", "f", "--threshold", "80"], "It must be a number from 0 to 1."],
  ["an empty share", ["run", "f", "--threshold", ""], "It must be a number from 0 to 1."],
  ["a mapping of nothing", ["run", "f", "--map", "input"], '"input" is not FIELD=COLUMN'],
  ["a mapping to an unknown field", ["run", "f", "--map", "inptu=a"], 'did you mean "input"?'],
  ["an unknown check", ["run", "f", "--expect", "equal"], "Allowed choices are equals, includes, regex, number"],
  [
    "A20: an id with a blank",
    ["run", "f", "--batch", "a b"],
    "It must be 1 to 200 characters of letters, digits and . _ - / : @",
  ],
  ["a lane with a colon", ["show", "t", "--lane", "a:b"], "It must be 1 to 100 characters"],
  ["another format", ["results", "b", "--format", "xml"], "Allowed choices are jsonl, csv."],
])("%s is refused", async (_, argv, text) => {
  const { exitCode, out, err } = await tried(...argv);
  expect({ exitCode, out }).toEqual({ exitCode: 1, out: "" });
  expect(err).toContain(text);
});

test("help COMMAND is the help of that command, and --help names all of them with their arguments", async () => {
  expect(await tried("help", "run")).toEqual(await tried("run", "--help"));
  const { out } = await tried("--help");
  expect(out).toContain("  run [options] <file> ");
  expect(out).toContain("  retry [options] <turn|batch> ");
});

test("help and the version are no errors", async () => {
  expect(await tried("--help")).toMatchObject({ exitCode: 0, err: "", out: expect.stringContaining("Example:") });
  expect(await tried("--version")).toMatchObject({
    exitCode: 0,
    err: "",
    out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
  });
});

test.each([
  "run",
  "submit",
  "work",
  "watch",
  "list",
  "results",
  "show",
  "events",
  "cancel",
  "retry",
  "agents",
  "redis",
  "simulate",
  "doctor",
])("the help of %s has an example, and what to do next", async (command) => {
  const { exitCode, out, err } = await tried(command, "--help");
  expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
  expect(out).toContain(`Example:\n  $ turnq ${command}`);
  expect(out).toContain("Next: ");
});
