import { defineConfig } from "turnq";

export default defineConfig({
  agents: {
    mine: { type: "module", module: "./my-agent.ts", limits: { timeoutMs: 10_000 } },
  },
});
