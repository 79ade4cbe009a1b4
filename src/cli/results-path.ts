import { createHash } from "node:crypto";
import { join } from "node:path";

const NAME_MAX = 150;

/** Where the results of a batch go unless someone says: one file per batch, whatever its id looks like. */
export function resultsPath(folder: string, batch: string): string {
  return join(folder, ".turnq", "results", `${fileNameOf(batch)}.jsonl`);
}

/** The id as the name of a file; two ids never share one. */
function fileNameOf(id: string): string {
  const encoded = encodeURIComponent(id).replace(/^\./, "%2E");
  if (encoded.length <= NAME_MAX) return encoded;
  return `${encoded.slice(0, NAME_MAX)}-${createHash("sha256").update(id).digest("hex").slice(0, 16)}`;
}
