import { defineAgent } from "turnq";

const countWords = (text: string): number => text.split(/\s+/).filter((word) => word !== "").length;

/**
 * An agent of one function: it shortens a text to its longest sentences, in at most 20 words. It runs in a process of
 * its own, and what it returns is the answer. In a session it also says how many turns went before.
 */
export const myAgent = defineAgent("mine", async ({ input, history, shouldStop }) => {
  const text =
    typeof input === "string" ? input : input.map((part) => ("text" in part ? String(part.text) : "")).join("");
  const sentences = text.split(/(?<=[.!?])\s+/).sort((a, b) => countWords(b) - countWords(a));
  const kept: string[] = [];
  let words = 0;
  for (const sentence of sentences) {
    // What is there when a stop is asked for is the answer.
    if (shouldStop() !== undefined) break;
    if (kept.length > 0 && words + countWords(sentence) > 20) continue;
    kept.push(sentence);
    words += countWords(sentence);
  }
  const before = history.filter((message) => message.role === "user").length;
  return before === 0 ? kept.join(" ") : `${kept.join(" ")} (turn ${before + 1} of this session)`;
});
