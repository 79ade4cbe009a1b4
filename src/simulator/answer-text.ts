import { chance } from "./chance.ts";

/** What a simulated model says where it knows no answer. */
export const UNKNOWN_ANSWER = "I do not know: this is a simulated model, and its answers file has nothing for this.";

const LAST_NUMBER = /-?\d[\d,]*(?:\.\d+)?(?=\D*$)/;

/** A wrong answer that looks like the right one: its last number is off, or it says that it does not know. */
export function wrongAnswer(right: string, ...draw: readonly (string | number)[]): string {
  const found = LAST_NUMBER.exec(right);
  if (found === null) return right === UNKNOWN_ANSWER ? right : "I am not sure.";
  const value = Number(found[0].replaceAll(",", ""));
  const off = value + 1 + Math.floor(chance("off", ...draw) * 9);
  return `${right.slice(0, found.index)}${off}${right.slice(found.index + found[0].length)}`;
}
