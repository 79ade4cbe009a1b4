import { writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { parseArgs } from "node:util";
import Table from "cli-table3";
import { cancelTurns } from "./cancel.mjs";
import { deadlines } from "./deadline.mjs";
import { turnsInFlight } from "./in-flight.mjs";
import { processTurns } from "./process.mjs";
import { startRedis } from "./redis.mjs";
import { submitTurns } from "./submit.mjs";
import { takeovers } from "./takeover.mjs";

const PARTS = {
  process: processTurns,
  submit: submitTurns,
  cancel: cancelTurns,
  deadline: deadlines,
  "in-flight": turnsInFlight,
  takeover: takeovers,
};

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    only: { type: "string", multiple: true },
    kills: { type: "string" },
    out: { type: "string" },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  process.stdout.write(
    `npm run bench -- [--quick] [--only ${Object.keys(PARTS).join("|")}] [--kills N] [--out FILE]\n`,
  );
  process.exit(0);
}
const wanted = values.only ?? Object.keys(PARTS);
const unknown = wanted.find((name) => !(name in PARTS));
if (unknown !== undefined) {
  process.stderr.write(`there is no part "${unknown}"; there are ${Object.keys(PARTS).join(", ")}\n`);
  process.exit(2);
}

const { quick } = values;
const server = await startRedis();
const rows = [];
const round = (number) =>
  number === undefined ? "" : number >= 100 ? Math.round(number) : Math.round(number * 100) / 100;
try {
  for (const name of wanted) {
    const say = (row) =>
      process.stderr.write(
        `${row.name}: ${round(row.turnq)} ${row.unit}${row.ratio === undefined ? "" : `, raw ${round(row.raw)}, ratio ${round(row.ratio)}`}\n`,
      );
    const context = {
      server,
      quick,
      say,
      turns: quick ? 300 : 5000,
      rounds: quick ? 1 : 3,
      kills: Number(values.kills ?? (quick ? 2 : 50)),
    };
    rows.push(...(await PARTS[name](context)));
  }
} finally {
  await server.stop();
}
const machine = {
  cpus: cpus().length,
  model: cpus()[0]?.model.trim(),
  node: process.version,
  platform: process.platform,
};
const table = new Table({ head: ["figure", "turnq", "raw BullMQ", "ratio", "unit"], style: { head: [], border: [] } });
for (const { name, unit, turnq, raw, ratio } of rows) table.push([name, round(turnq), round(raw), round(ratio), unit]);
process.stdout.write(`${table.toString()}\n`);
const json = `${JSON.stringify({ at: new Date().toISOString(), machine, quick, rows }, undefined, 2)}\n`;
if (values.out !== undefined) writeFileSync(values.out, json);
process.exit(0);
