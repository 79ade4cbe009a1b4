import Table from "cli-table3";
import { harmlessButColors } from "./harmless.ts";
import type { Colors } from "./output.ts";

const SIDES = ["top", "top-mid", "top-left", "top-right", "bottom", "bottom-mid", "bottom-left", "bottom-right"];
const LINES = ["left", "left-mid", "mid", "mid-mid", "right", "right-mid"];
// No lines: a table has to fit 80 columns.
const CHARS = { ...Object.fromEntries([...SIDES, ...LINES].map((side) => [side, ""])), middle: "  " };

/** A table without lines: the first column stands left, the others right unless said. */
export function plainTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  colors: Colors,
  aligns: readonly ("left" | "right")[] = ["left", ...head.slice(1).map(() => "right" as const)],
): string {
  const table = new Table({
    chars: CHARS,
    style: { head: [], border: [], compact: true, "padding-left": 0, "padding-right": 0 },
    colAligns: [...aligns],
  });
  table.push(
    head.map((title) => colors.bold(title)),
    // Before the columns are measured: what is shown as a code is as wide as it.
    ...rows.map((row) => row.map(harmlessButColors)),
  );
  return table.toString().replaceAll(/[ \t]+$/gm, "");
}
