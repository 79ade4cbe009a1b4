import { describe, expect, test } from "vitest";
import { faultsOf, latencyOf, rateOf, settingsOfText } from "../../../src/simulator/settings-text.ts";

describe("settings as text", () => {
  test("a line of them", () => {
    expect(settingsOfText("accuracy=0.9,seed=-3,latency=5..20,rate=20/s,429=0.05,cut=0.02")).toEqual({
      accuracy: 0.9,
      seed: -3,
      latencyMs: [5, 20],
      ratePerSecond: 20,
      faults: { "429": 0.05, cut: 0.02 },
    });
    expect(latencyOf("7")).toEqual([7, 7]);
    expect(rateOf("0.5")).toBe(0.5);
    expect(faultsOf("hang=1")).toEqual({ hang: 1 });
  });

  test.each([
    "accuracy=2",
    "accuracy=",
    "accurcy=1",
    "429",
    "=1",
    "429=0.6,500=0.6",
    "200=0.1",
    "latency=20..5",
    "latency=x",
    "rate=-1",
    "seed=1.5",
    "hang=NaN",
  ])("refuses %s", (text) => {
    expect(() => settingsOfText(text)).toThrow(expect.objectContaining({ code: "invalid_request" }));
  });
});
