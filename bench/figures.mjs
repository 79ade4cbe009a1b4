/** The value in the middle. */
export function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)];
}

/** The value below which this share of the others is. */
export function quantile(values, share) {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)];
}

/** Runs ours and the raw one in turns, so that what else the machine does meets both, and gives the medians of each figure. */
export async function interleaved(rounds, ours, raw) {
  const all = { turnq: [], raw: [] };
  for (let round = 0; round < rounds; round++) {
    all.raw.push(await raw());
    all.turnq.push(await ours());
  }
  const middle = (runs) =>
    Object.fromEntries(Object.keys(runs[0]).map((name) => [name, median(runs.map((run) => run[name]))]));
  return { turnq: middle(all.turnq), raw: middle(all.raw) };
}

export async function until(condition, everyMs = 5) {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, everyMs));
}
