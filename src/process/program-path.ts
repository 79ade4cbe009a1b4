import { constants, accessSync, statSync } from "node:fs";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { failure } from "../domain/failure.ts";
import { ProcessFailure } from "./process-failure.ts";

/**
 * Where the program is that a command names, looked for before it is started: the error of a
 * failed start is the same for a missing program and a missing folder.
 * @throws ProcessFailure with failure code `config` that says which of the two is missing
 */
export function programPath(program: string, cwd: string, env: Readonly<Record<string, string>>): string {
  if (!isFolder(cwd)) throw missing(`the working directory ${cwd} does not exist`);
  if (program.includes("/")) {
    const path = isAbsolute(program) ? program : resolve(cwd, program);
    const problem = problemOf(path);
    if (problem !== undefined) throw missing(`the program ${program} ${problem} (${path})`);
    return path;
  }
  const folders = (env.PATH ?? "").split(delimiter);
  const found = folders
    .map((folder) => resolve(cwd, join(folder, program)))
    .find((path) => problemOf(path) === undefined);
  if (found === undefined) throw missing(`the program ${program} was not found on the PATH of the agent`);
  return found;
}

function missing(text: string): ProcessFailure {
  return new ProcessFailure("config", failure("config", text));
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function problemOf(path: string): string | undefined {
  const stat = statOf(path);
  if (stat === undefined) return "does not exist";
  if (!stat.isFile()) return "is not a file";
  try {
    accessSync(path, constants.X_OK);
    return undefined;
  } catch {
    return "may not be executed";
  }
}

function statOf(path: string): ReturnType<typeof statSync> | undefined {
  try {
    return statSync(path);
  } catch {
    return undefined;
  }
}
