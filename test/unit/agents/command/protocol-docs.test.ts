import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { CommandConfig } from "../../../../src/agents/command/command-config.ts";
import { ProtocolLine } from "../../../../src/agents/command/protocol-line.ts";

const DOCS = readFileSync(new URL("../../../../docs/command-protocol.md", import.meta.url), "utf8");

/** The rows of the tables under a heading, each as the texts in backticks of its first two cells. */
function rows(heading: string): Map<string, string[]> {
  const section = DOCS.split(/^## /m).find((part) => part.startsWith(heading)) ?? "";
  const found = new Map<string, string[]>();
  for (const line of section.split("\n").filter((text) => text.startsWith("| `"))) {
    const [, first = "", second = ""] = line.split("|");
    const words = (cell: string): string[] => [...cell.matchAll(/`([A-Za-z_]+)\??`/g)].map((match) => match[1] ?? "");
    for (const name of words(first)) found.set(name, words(second));
  }
  return found;
}

describe("docs/command-protocol.md", () => {
  it("lists every line with every field, and no other", () => {
    const said = new Map<string, string[]>();
    for (const option of ProtocolLine.options) {
      const { type, ...fields } = option.shape;
      said.set(type.value, Object.keys(fields));
    }
    expect(rows("What it says")).toEqual(said);
  });

  it("lists every field of the config", () => {
    const section = DOCS.split(/^## /m)[0] ?? "";
    const listed = [...section.matchAll(/^\| ([^|]+) \|/gm)].flatMap(([, cell]) =>
      [...(cell ?? "").matchAll(/`(\w+)`/g)].map((match) => match[1]),
    );
    const fields = Object.keys(CommandConfig.shape).filter((key) => key !== "type");
    expect(new Set(listed)).toEqual(new Set(fields));
  });
});
