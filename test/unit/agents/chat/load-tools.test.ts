import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { chatAgent } from "../../../../src/agents/chat/chat-agent.ts";
import { ChatConfig } from "../../../../src/agents/chat/chat-config.ts";

const TOOLS = `export const tools = { now: { description: "d", parameters: {}, execute: () => 1 } };`;

test.each([
  ["breaks while it is loaded", "throw new Error('no memory');"],
  ["is half written", "export const tools = {"],
])("U01: a tools file that %s is loaded once it is mended, without a restart", async (_, broken) => {
  const folder = await mkdtemp(join(tmpdir(), "turnq-test-tools-"));
  try {
    const path = join(folder, "tools.mjs");
    await writeFile(path, broken);
    const config = ChatConfig.parse({ type: "chat", baseUrl: "http://127.0.0.1:9/v1", model: "m", tools: "tools.mjs" });
    const spec = chatAgent("asks", config, { baseDir: folder, env: {} });
    await spec.prepare?.();
    expect(spec.problem).toContain("tools");
    await writeFile(path, TOOLS);
    spec.again?.();
    await spec.prepare?.();
    expect(spec.problem).toBeUndefined();
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
