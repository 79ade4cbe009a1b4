/**
 * An agent that does small tasks with real programs and speaks turnq's command protocol: one JSON line on stdin, JSON
 * lines on stdout. `node agent.mjs` works well. `node agent.mjs --shaky SEED` crashes or hangs in a seeded share of
 * its attempts (fate.mjs) and is careless (work.mjs).
 *
 * No model is asked, so its "tokens" are words, counted by itself: inputTokens are the words of the task,
 * outputTokens the words that it wrote. It makes no model calls and reports none.
 */
import { spawn } from "node:child_process";
import { fateOf } from "./fate.mjs";
import { UnknownTaskError, work } from "./work.mjs";

const MAX_TOOL_RESULT = 2_000;
const HANG_SECONDS = 60;

// Waits for the write: a process that ends itself must not take its last lines with it.
function say(line) {
  return new Promise((resolve, reject) => {
    process.stdout.write(`${JSON.stringify(line)}\n`, (error) => (error ? reject(error) : resolve()));
  });
}

async function readStdin() {
  let text = "";
  for await (const chunk of process.stdin.setEncoding("utf8")) text += chunk;
  return text;
}

function textOf(input) {
  if (typeof input === "string") return input;
  return input.map((part) => part.text ?? "").join("");
}

function countWords(text) {
  return text.split(/\s+/).filter((word) => word !== "").length;
}

/** Runs one program to its end; the answer is its stdout. Throws when it is missing or does not end with 0. */
function runProgram(program, args, stdin) {
  return new Promise((resolve, reject) => {
    const child = spawn(program === "node" ? process.execPath : program, args, {
      // Sorting and letters must not depend on the machine's language.
      env: { ...process.env, LC_ALL: "C" },
      stdio: ["pipe", "pipe", "pipe"],
    });
    let output = "";
    let errors = "";
    child.stdout.setEncoding("utf8").on("data", (text) => (output += text));
    child.stderr.setEncoding("utf8").on("data", (text) => (errors += text));
    // A program may end without having read its input.
    child.stdin.on("error", () => {});
    child.stdin.end(stdin);
    child.once("error", reject);
    child.once("close", (code, signal) => {
      if (code === 0) resolve(output);
      else reject(new Error(`${program} ended with ${signal ?? `exit code ${code}`}: ${errors.slice(0, 500).trim()}`));
    });
  });
}

async function meet(fate) {
  if (fate === "kill") process.kill(process.pid, "SIGKILL");
  if (fate === "exit") {
    process.stderr.write("shaky: gave up half way\n");
    process.exit(1);
  }
  // A hang that takes some ending: a child in a session of its own, and a SIGTERM that is not obeyed.
  process.on("SIGTERM", () => void say({ type: "text", text: "Not now.\n" }));
  const args = [String(HANG_SECONDS)];
  const sleeper = spawn("sleep", args, { detached: true, stdio: "ignore" });
  await say({ type: "tool_start", id: "hang", name: "sleep", args: { args, pid: sleeper.pid } });
  await new Promise((resolve) => setTimeout(resolve, HANG_SECONDS * 1_000));
  process.exit(1);
}

function makeTools(task, fate) {
  const usage = { inputTokens: countWords(task), outputTokens: 0 };
  let calls = 0;
  const write = async (text) => {
    usage.outputTokens += countWords(text);
    await say({ type: "text", text });
  };
  const report = (answer) => {
    usage.outputTokens += countWords(answer);
    return say({ type: "usage", ...usage });
  };
  const run = async (program, args, stdin = "") => {
    const id = `t${++calls}`;
    await write(`Asking ${program}.\n`);
    await say({ type: "tool_start", id, name: program, args: { args, stdin } });
    try {
      const output = await runProgram(program, args, stdin);
      await say({ type: "tool_end", id, result: output.slice(0, MAX_TOOL_RESULT), status: "ok" });
      return output;
    } catch (error) {
      await say({ type: "tool_end", id, result: error.message, status: "error" });
      throw error;
    } finally {
      await say({ type: "usage", ...usage });
      if (fate !== "fine") await meet(fate);
    }
  };
  return { run, report };
}

async function main() {
  const flag = process.argv.indexOf("--shaky");
  const seed = flag === -1 ? undefined : process.argv[flag + 1];
  const { turn, attempt, input } = JSON.parse(await readStdin());
  const task = textOf(input).trim();
  const { run, report } = makeTools(task, seed === undefined ? "fine" : fateOf(seed, turn, attempt));
  try {
    const answer = await work(task, run, seed !== undefined);
    await report(answer);
    await say({ type: "step_end" });
    await say({ type: "result", output: answer });
  } catch (error) {
    const code = error instanceof UnknownTaskError ? "invalid_request" : "agent_error";
    await say({ type: "error", message: error.message, code, retryable: false });
  }
}

await main();
