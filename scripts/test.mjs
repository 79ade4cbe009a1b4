// Runs the test suite and ends its output with `N passed, N failed`, whatever happens to the suite.
// Arguments go on to vitest; the exit code is vitest's.
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const folder = mkdtempSync(join(tmpdir(), "turnq-report-"));
const report = join(folder, "report.json");

const vitest = spawn(
  process.execPath,
  [
    join(root, "node_modules/vitest/vitest.mjs"),
    "run",
    "--reporter=default",
    "--reporter=json",
    `--outputFile.json=${report}`,
    ...process.argv.slice(2),
  ],
  { cwd: root, stdio: "inherit" },
);
// Ctrl-C reaches vitest too: this process waits for it, so that the last line is still printed.
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => vitest.kill(signal));

const { code, error } = await new Promise((resolve) => {
  vitest.once("error", (cause) => resolve({ code: 1, error: cause }));
  vitest.once("close", (status) => resolve({ code: status ?? 1, error: undefined }));
});
if (error !== undefined) console.log(`The tests could not be started: ${error.message}`);

const counts = readCounts();
rmSync(folder, { recursive: true, force: true });
if (counts.skipped > 0) console.log(`${counts.skipped} skipped`);
// A run that ended badly is never "0 failed": errors outside tests, no tests at all, a killed runner.
const failed = code !== 0 && counts.failed === 0 ? 1 : counts.failed;
console.log(`${counts.passed} passed, ${failed} failed`);
process.exitCode = code === 0 && failed > 0 ? 1 : code;

function readCounts() {
  try {
    const read = JSON.parse(readFileSync(report, "utf8"));
    // A file that cannot be loaded, or whose hook fails, has no failed test in it, and would count as nothing.
    const broken = read.testResults.filter(
      (file) => file.status === "failed" && file.assertionResults.every((test) => test.status !== "failed"),
    );
    return {
      passed: read.numPassedTests,
      failed: read.numFailedTests + broken.length,
      skipped: read.numPendingTests + read.numTodoTests,
    };
  } catch {
    return { passed: 0, failed: 0, skipped: 0 };
  }
}
