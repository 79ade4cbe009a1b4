import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/longest-first.ts";

export default defineConfig({
  test: {
    pool: "forks",
    // Loading the project for every file anew took a quarter of all the time. Nothing of ours is kept in modules but what
    // is read once; a test that sets such a thing sets it back.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    globalSetup: "test/leftovers.ts",
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          sequence: { groupOrder: 0 },
          include: ["test/unit/**/*.test.ts", "test/contract/**/*.test.ts", "test/architecture.test.ts"],
          testTimeout: 60_000,
          hookTimeout: 60_000,
        },
      },
      {
        extends: true,
        test: {
          name: "integration",
          // After the unit tests: on a small machine many real processes at once only get in each other's way.
          sequence: { groupOrder: 1 },
          include: ["test/integration/**/*.test.ts", "test/chaos/**/*.test.ts", "test/simulation/**/*.test.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 3,
        },
      },
    ],
  },
});
