import { clusterAddress, shownCluster } from "./cluster.ts";

/** A Redis URL without its password, for people and logs. Text that is no URL is not shown at all. */
export function redactUrl(url: string): string {
  let parsed: URL;
  try {
    const cluster = clusterAddress(url);
    if (cluster !== undefined) return shownCluster(cluster);
    parsed = new URL(url);
  } catch {
    return "redis://(not a URL)";
  }
  if (parsed.password !== "") parsed.password = "***";
  // Passwords are also written as ?password=…
  for (const name of parsed.searchParams.keys()) {
    if (/pass|secret|token/i.test(name)) parsed.searchParams.set(name, "***");
  }
  return parsed.toString();
}
