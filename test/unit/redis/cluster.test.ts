import { expect, test } from "vitest";
import { clusterAddress } from "../../../src/redis/cluster.ts";
import { clusterOptions, redisOptions } from "../../../src/redis/connection.ts";
import { redactUrl } from "../../../src/redis/url.ts";

test.each([
  [
    "redis+cluster://h1:7000,h2:7001",
    {
      tls: false,
      nodes: [
        { host: "h1", port: 7000 },
        { host: "h2", port: 7001 },
      ],
    },
  ],
  ["rediss+cluster://h1/", { tls: true, nodes: [{ host: "h1", port: 6379 }] }],
  [
    "redis+cluster://u:p%40s:x@[::1]:7000",
    { tls: false, username: "u", password: "p@s:x", nodes: [{ host: "::1", port: 7000 }] },
  ],
  ["redis+cluster://:secret@h1:80", { tls: false, password: "secret", nodes: [{ host: "h1", port: 80 }] }],
])("the URL of a cluster: %s", (url, address) => {
  expect(clusterAddress(url)).toEqual(address);
});

test.each(["redis://127.0.0.1:6379", "redis://:a,b@host:1/2", "rediss://host", "127.0.0.1", "/tmp/redis.sock"])(
  "the URL of a single Redis: %s",
  (url) => {
    expect(clusterAddress(url)).toBeUndefined();
  },
);

test.each([
  "redis://h1:7000,h2:7001",
  "redis://h1:7000?cluster=true",
  "redis-cluster://h1:7000",
  "rediscluster://h1:7000",
  "redis+cluster://",
  "redis+cluster://h1:7000,",
  "redis+cluster://h1:7000/3",
  "redis+cluster://h1:port",
])("another form is refused with the right one: %s", (url) => {
  expect(() => clusterAddress(url)).toThrow(
    expect.objectContaining({ code: "config", hint: expect.stringContaining("redis+cluster://") }),
  );
});

test("the password of a cluster's URL is not shown, nor anything of a URL that cannot be read", () => {
  expect(redactUrl("redis+cluster://:secret@h1:7000,h2")).toBe("redis+cluster://:***@h1:7000,h2:6379");
  expect(redactUrl("redis+cluster://:secret@h1:port")).toBe("redis://(not a URL)");
});

test("a producer gives up on a cluster, a worker goes on", () => {
  const producer = clusterOptions("producer", redisOptions("producer"));
  expect(producer).toMatchObject({ enableOfflineQueue: false, maxRedirections: 16 });
  const worker = clusterOptions("worker", redisOptions("worker"));
  expect(worker).toMatchObject({ enableOfflineQueue: true, redisOptions: { maxRetriesPerRequest: null } });
  expect(worker.maxRedirections).toBeGreaterThan(1e9);
});
