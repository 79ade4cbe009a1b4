import { afterEach, describe, expect, test } from "vitest";
import { modelSettings, type ModelSettingsInput } from "../../../src/simulator/model-settings.ts";
import { startSimulator, type RunningSimulator } from "../../../src/simulator/simulator.ts";

const open: RunningSimulator[] = [];
afterEach(async () => {
  await Promise.all(open.splice(0).map((simulator) => simulator.close()));
});

async function simulate(settings: ModelSettingsInput = {}): Promise<RunningSimulator> {
  const models = { m: modelSettings({ accuracy: 1, ...settings }) };
  const simulator = await startSimulator({ models, answers: new Map([["2+2?", "It is 4, I think"]]), port: 0 });
  open.push(simulator);
  return simulator;
}

function ask({ url }: RunningSimulator, more: object = {}, signal?: AbortSignal): Promise<Response> {
  return fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model: "m", messages: [{ role: "user", content: "2+2?" }], ...more }),
    ...(signal === undefined ? {} : { signal }),
  });
}

const STREAM = { stream: true, stream_options: { include_usage: true } };

async function servedOf({ url }: RunningSimulator): Promise<unknown> {
  return (await fetch(`${url}/served`)).json();
}

describe("an OpenAI-compatible server", () => {
  test("answers whole or streamed with the same text and usage, and has served both", async () => {
    const simulator = await simulate();
    const whole = (await (await ask(simulator)).json()) as {
      choices: { message: { content: string } }[];
      usage: object;
    };
    expect(whole.choices[0]?.message.content).toBe("It is 4, I think");
    expect(whole.usage).toMatchObject({ prompt_tokens: 4, completion_tokens: 4, total_tokens: 8 });
    const streamed = await (await ask(simulator, STREAM)).text();
    const chunks = streamed.split("\n\n").filter((line) => line.startsWith("data: {"));
    const parsed = chunks.map(
      (chunk) => JSON.parse(chunk.slice(6)) as { choices: { delta: { content?: string } }[]; usage?: object },
    );
    expect(parsed.map(({ choices }) => choices[0]?.delta.content ?? "").join("")).toBe("It is 4, I think");
    expect(parsed.at(-1)?.usage).toEqual(whole.usage);
    expect(streamed.trimEnd().endsWith("data: [DONE]")).toBe(true);
    expect(await servedOf(simulator)).toMatchObject({
      simulated: true,
      requests: 2,
      byStatus: { "200": 2 },
      usage: { inputTokens: 8, outputTokens: 8, cacheReadTokens: 0 },
    });
  });

  test("says which models it has, and refuses others and what is no request", async () => {
    const simulator = await simulate();
    expect(await (await fetch(`${simulator.url}/v1/models`)).json()).toMatchObject({ data: [{ id: "m" }] });
    expect((await ask(simulator, { model: "gpt" })).status).toBe(404);
    expect((await ask(simulator, { messages: [] })).status).toBe(400);
    expect(await servedOf(simulator)).toMatchObject({ requests: 0 });
  });

  test("the port is taken: it says so", async () => {
    const simulator = await simulate();
    const port = Number(new URL(simulator.url).port);
    const again = startSimulator({ models: {}, answers: new Map(), port });
    await expect(again).rejects.toMatchObject({ code: "config" });
  });
});

describe("faults", () => {
  test("a status, with Retry-After where a provider sends one, bills nothing", async () => {
    const simulator = await simulate({ faults: { "429": 1 } });
    const refused = await ask(simulator);
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"]);
    expect(await servedOf(simulator)).toMatchObject({ byStatus: { "429": 1 }, usage: { inputTokens: 0 } });
  });

  test("a cut breaks the stream off, and what was generated is billed", async () => {
    const simulator = await simulate({ faults: { cut: 1 } });
    const stream = await ask(simulator, STREAM);
    expect(stream.status).toBe(200);
    await expect(stream.text()).rejects.toThrow();
    const text = async (more: object): Promise<string> => (await ask(simulator, more)).text();
    await expect(text({})).rejects.toThrow();
    const served = simulator.served();
    expect(served.usage.inputTokens).toBe(8);
    expect(served.usage.outputTokens).toBeLessThan(8);
  });

  test("one that hangs is never answered, and does not hold the end", async () => {
    const simulator = await simulate({ faults: { hang: 1 } });
    const asker = new AbortController();
    const hung = ask(simulator, STREAM, asker.signal);
    const other = ask(simulator);
    const failed = Promise.allSettled([hung, other]);
    await expect.poll(() => simulator.served().byStatus["hang"]).toBe(2);
    asker.abort();
    await simulator.close();
    expect((await failed).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    expect(simulator.served().usage).toEqual({ inputTokens: 8, outputTokens: 0, cacheReadTokens: 0 });
  });

  test("more requests than its rate are refused", async () => {
    const simulator = await simulate({ ratePerSecond: 1 });
    const statuses = await Promise.all([1, 2, 3].map(async () => (await ask(simulator)).status));
    expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 429, 429]);
  });

  test("an asker that goes in the middle is billed for what was generated", async () => {
    const simulator = await simulate({ faults: { slow: 1 } });
    const asker = new AbortController();
    const reader = (await ask(simulator, STREAM, asker.signal)).body?.getReader();
    await expect.poll(() => simulator.served().usage.outputTokens).toBeGreaterThan(0);
    asker.abort();
    await reader?.closed.catch(() => undefined);
    expect(simulator.served().usage.outputTokens).toBeLessThan(5);
  });
});
