import { describe, expect, it } from "vitest";
import { allowedEnv } from "../../../src/process/allowed-env.ts";
import { maskSecrets } from "../../../src/process/mask.ts";

describe("B22: secrets in a text", () => {
  it.each([
    ["Authorization: Bearer abc.def-123, next", "abc.def-123"],
    ['{"authorization":"Basic dXNlcjpwYXNz"}', "dXNlcjpwYXNz"],
    ["curl -H 'x-api-key: 0123456789'", "0123456789"],
    ["https://host/path?key=hunter22&x=1", "hunter22"],
    ["Incorrect API key provided: sk-proj-abcd1234efgh", "sk-proj-abcd1234efgh"],
  ])("%s", (text, secret) => {
    expect(maskSecrets(text)).not.toContain(secret);
    expect(maskSecrets(text)).toContain("[masked]");
  });

  it("are the values of variables with such a name, and no others", () => {
    const env = { DB_PASSWORD: "p4ssw0rd!", GITHUB_TOKEN: "ghx_12345", API_KEY: "1", NAME: "example" };
    expect(maskSecrets("p4ssw0rd! ghx_12345 1 example", env)).toBe("[masked] [masked] 1 example");
  });

  it("leave an ordinary text as it is", () => {
    const text = "the key to the token of authorization is in the sky: 5 tokens, key=value";
    expect(maskSecrets(text)).toBe(text);
  });
});

describe("the environment of a program", () => {
  it("is an allow-list: the usual names, LC_*, and those that the config names", () => {
    const env = {
      PATH: "p",
      HOME: "h",
      LANG: "l",
      LC_ALL: "c",
      TMPDIR: "t",
      TZ: "z",
      SECRET: "s",
      MINE: "m",
      GONE: undefined,
    };
    expect(allowedEnv(env)).toEqual({ PATH: "p", HOME: "h", LANG: "l", LC_ALL: "c", TMPDIR: "t", TZ: "z" });
    expect(allowedEnv(env, ["MINE", "GONE", "NEVER"])).toMatchObject({ MINE: "m" });
    expect(allowedEnv({ TURNQ_TURN: "another's" }, ["TURNQ_TURN"])).toEqual({});
  });
});
