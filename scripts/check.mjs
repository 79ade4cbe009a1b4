// Runs every gate, also after one has failed, and says at the end which held. Its tests are the long ones: see test/long.ts.
import { spawnSync } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const gates = ["format:check", "lint", "types", "layers", "knip", "publint", "api:check", "test"];
const rows = gates.map((gate) => {
  console.log(`\n== ${gate}`);
  const startedAt = Date.now();
  const { status } = spawnSync("npm", ["run", "--silent", gate], {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, TURNQ_TEST_LONG: "1" },
  });
  return { gate, held: status === 0, seconds: ((Date.now() - startedAt) / 1000).toFixed(1) };
});
console.log("");
for (const { gate, held, seconds } of rows) console.log(`${held ? "ok    " : "FAILED"} ${gate} (${seconds} s)`);
process.exitCode = rows.every((row) => row.held) ? 0 : 1;
