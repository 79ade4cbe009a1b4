/** Tells what a suite tries, each with how often: `name ×3`. */
export function listed(title: string, names: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const all = [...counts].map(([name, count]) => (count === 1 ? name : `${name} ×${count}`));
  return `${counts.size} ${title}, ${names.length} tries:\n${all.join(", ")}`;
}
