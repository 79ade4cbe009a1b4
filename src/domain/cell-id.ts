import { createHash } from "node:crypto";

/** Longest id, as the shape of an id has it. */
const ID_MAX = 200;
const HASH_LENGTH = 43;

/** Which turn of a batch: one sample on one agent, once. */
export interface CellName {
  readonly batch: string;
  readonly sample: string;
  readonly agent: string;
  readonly epoch: number;
}

/**
 * The id of a cell's turn: `BATCH:SAMPLE:AGENT:EPOCH`. Where that is over 200 characters, or where
 * a `:` in the batch's id would let two batches make the same id, a readable beginning, `@` and a
 * hash of the four parts. The plain form ends with `:` and digits, the hashed one never does.
 */
export function cellTurnId(cell: CellName): string {
  const plain = `${cell.batch}:${cell.sample}:${cell.agent}:${cell.epoch}`;
  if (plain.length <= ID_MAX && !cell.batch.includes(":")) return plain;
  const parts = JSON.stringify([cell.batch, cell.sample, cell.agent, cell.epoch]);
  const hash = createHash("sha256").update(parts).digest("base64url");
  return `${plain.slice(0, ID_MAX - HASH_LENGTH - 1)}@${hash}`;
}
