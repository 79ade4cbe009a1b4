import { expect, onTestFinished, test } from "vitest";
import { Subscriber } from "../../../src/queue/subscriber.ts";
import { connect, whenReady } from "../../../src/redis/connection.ts";
import { SILENT } from "../../../src/telemetry/log.ts";
import { openRedisProxy } from "../../redis-proxy.ts";
import { throwAwaySingle } from "../../redis.ts";
import { until } from "./scene.ts";

test("a subscriber hears again after a cut, and one that is closed just as it subscribes anew leaves no unhandled rejection", async () => {
  const unhandled: unknown[] = [];
  const onUnhandled = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", onUnhandled);
  const server = await throwAwaySingle({ appendfsync: "no" });
  const proxy = await openRedisProxy(server.port);
  const direct = connect(server.url, "worker");
  onTestFinished(async () => {
    process.off("unhandledRejection", onUnhandled);
    direct.disconnect();
    await proxy.close();
    await server.stop();
  });
  const redis = connect(proxy.url, "worker");
  await whenReady(redis, 5000);
  const heard: string[] = [];
  const subscriber = new Subscriber(redis, SILENT, (_channel, message) => heard.push(message));
  await Promise.all(["one", "two"].map((channel) => subscriber.listen(channel)));
  proxy.cut();
  for (const channel of ["one", "two"])
    await until(async () => (await direct.publish(channel, channel)) > 0 && heard.includes(channel), channel);

  let anew = false;
  proxy.onCommand(({ name }) => {
    if (name !== "subscribe") return;
    anew = true;
    // It is asked, and not answered.
    proxy.hold(true);
  });
  proxy.cut();
  await until(() => anew, "the second subscription");
  subscriber.close();
  await new Promise((resolve) => redis.once("end", resolve));
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled).toEqual([]);
});
