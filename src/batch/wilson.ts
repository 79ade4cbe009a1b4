/** The 97.5 % point of the standard normal distribution: two-sided 95 %. */
const Z = 1.959963984540054;

/**
 * The 95 % score interval of a rate (Wilson 1927), `[low, high]` within 0 to 1; null when nothing
 * was measured. It holds for small numbers and for rates of 0 and 1, where the usual one does not.
 */
export function wilson(passed: number, scored: number): [number, number] | null {
  if (scored === 0) return null;
  const rate = passed / scored;
  const weight = 1 + Z ** 2 / scored;
  const middle = (rate + Z ** 2 / (2 * scored)) / weight;
  const half = (Z / weight) * Math.sqrt((rate * (1 - rate)) / scored + Z ** 2 / (4 * scored ** 2));
  // At the ends the formula gives exactly 0 and 1, which rounding must not miss.
  return [passed === 0 ? 0 : Math.max(0, middle - half), passed === scored ? 1 : Math.min(1, middle + half)];
}
