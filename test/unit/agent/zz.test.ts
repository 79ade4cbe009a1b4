import { it } from "vitest";
import { runAttempt } from "/work/main/src/agent/attempt.ts";
import { noopAgent } from "/work/main/src/agents/noop/noop-agent.ts";
import { echoAgent } from "/work/main/src/agents/echo/echo-agent.ts";
import { storedRequest, startOptions } from "/work/main/test/agents.ts";
it("bench", async () => {
  for (const spec of [noopAgent(), echoAgent(), noopAgent(), echoAgent()]) {
    const t = performance.now(); const N = 20000;
    const request = storedRequest({});
    for (let i = 0; i < N; i += 50) await Promise.all(Array.from({ length: 50 }, () => runAttempt({ spec, request, attempt: 1, iteration: 1, generation: 1, history: [], before: { steps: 0, toolCalls: 0, tokens: 0 }, mark: "", start: startOptions(), onEvent: () => {} }).done));
    console.log(spec.name, ((performance.now() - t) * 1000 / N).toFixed(1), "us/turn");
  }
}, 60000);
