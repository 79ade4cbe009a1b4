/** A cost is kept in whole billionths of a dollar: what a token costs, at a price for a million of them in tenths of a cent. */
const PARTS_PER_DOLLAR = 1e9;

/** The most that one report can say in US dollars: above it nobody has spent so much, and sums would not be exact any more. */
export const COST_MAX_USD = 1_000_000;

/**
 * A cost to the billionth of a dollar, as the number that is nearest to it. Up to two million dollars that is one number
 * for each billionth, so that sums which are rounded by this are exact, and the same in any order.
 */
export function wholeCost(costUsd: number): number {
  return costOfParts(Math.round(costUsd * PARTS_PER_DOLLAR));
}

/** The cost of so many billionths of a dollar. */
export function costOfParts(parts: number): number {
  return parts / PARTS_PER_DOLLAR;
}
