import type { CountedOthers, Others } from "../batch/others-tally.ts";
import type { OtherTurns } from "../queue/other-turns.ts";
import { counted, usageText } from "./quantity-text.ts";
import type { CommandLines } from "./type-next.ts";

/** Batches that are named in a line, and so many are cancelled by name. */
const BATCHES_SHOWN = 5;

/** What waits, as a summary has it. */
export function countedOthers({ turns, batches, noBatch, unnamed }: OtherTurns): CountedOthers {
  return { turns, batches: Object.fromEntries(batches), noBatch, ...(unnamed === 0 ? {} : { unnamed }) };
}

/** What waits in the lanes of a run and is run too, in a line. */
export function waitingText(others: OtherTurns): string {
  const { turns, exact } = others;
  const wait = turns === 1 ? "1 turn of others waits" : `${number(turns)} turns of others wait`;
  const which = exact ? (turns === 1 ? "and is" : "and are") : "and those of its agents are";
  return `${wait} in its lanes, ${which} run and paid for too: ${ofWhom(countedOthers(others))}`;
}

/** Commands that end what waits. */
export function cancelLines({ batches, noBatch, named, unnamed }: OtherTurns, lines: CommandLines): string[] {
  const shown = [...batches.keys()].slice(0, BATCHES_SHOWN);
  const cancels = [...shown, ...named].map((id) => lines.of("cancel", id));
  const more = [
    ...(batches.size > shown.length || unnamed > 0 ? [`and so each batch more that is open: ${lines.of("list")}`] : []),
    ...(noBatch > named.length ? [`and so each without a batch, by its id: ${lines.of("cancel", "TURN")}`] : []),
  ];
  return [...cancels, ...more];
}

/** What a run did for others, in a line. */
export function othersLine(others: Others): string {
  const { turns, attempts, usage } = others;
  return `run for others too: ${counted(turns, "turn")} in ${counted(attempts, "attempt")}, ${ofWhom(others)}; usage ${usageText(usage)}`;
}

/** `1,000 of batch a, 3 of no batch`. */
function ofWhom({ batches, noBatch, unnamed = 0 }: CountedOthers): string {
  const all = Object.entries(batches).toSorted(([, a], [, b]) => b - a);
  const rest = all.slice(BATCHES_SHOWN).reduce((sum, [, turns]) => sum + turns, 0);
  const parts = [
    ...all.slice(0, BATCHES_SHOWN).map(([batch, turns]) => `${number(turns)} of batch ${batch}`),
    ...(rest === 0 ? [] : [`${number(rest)} of ${all.length - BATCHES_SHOWN} more batches`]),
    ...(noBatch === 0 ? [] : [`${number(noBatch)} of no batch`]),
    ...(unnamed === 0 ? [] : [`${number(unnamed)} of other batches or none`]),
  ];
  return parts.join(", ");
}

function number(count: number): string {
  return count.toLocaleString("en-US");
}
