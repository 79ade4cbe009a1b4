import { laneKey } from "../../../src/ledger/keys.ts";
import { request, settled, submit, type Stage } from "./stage.ts";

/** The lane is out of order in all the ways that upkeep mends. */
export async function disorder(stage: Stage): Promise<void> {
  const { scene, lane } = stage;
  const { redis } = scene;
  const key = (...parts: Parameters<typeof laneKey> extends [string, ...infer Rest] ? Rest : never): string =>
    laneKey(lane, ...parts);
  await submit(stage, request(stage, "old", { session: lane }));
  await settled(stage, "old");
  const longAgo = Date.now() - 8 * 86_400_000;
  await redis.hset(key("row", "old"), "settledAt", longAgo);
  await redis.zadd(key("state", "settled"), "XX", longAgo, "old");
  await scene.queue(lane).add("stray", {}, { jobId: "stray" });
  const cells = ["a", "b"].map((sample) => {
    const { id: _made, ...rest } = request(stage, sample, { batch: { id: `batch-${lane}`, sample, epoch: 1 } });
    return rest;
  });
  await submit(stage, request(stage, "t1"), request(stage, "gone", { expiresInMs: 1 }), ...cells);
  await redis
    .multi()
    .lrem(scene.bull(lane, "wait"), 0, "stray")
    .zadd(scene.bull(lane, "completed"), longAgo, "stray")
    .zadd(scene.bull(lane, "completed"), longAgo, "old")
    .lrem(scene.bull(lane, "wait"), 0, "t1")
    .del(scene.bull(lane, "t1"))
    .zadd(key("state", "delayed"), 1, "t1")
    .hset(key("batch", `batch-${lane}`), "s:waiting", 40)
    .del(key("row", `batch-${lane}:b:${lane}:1`))
    .exec();
}

/** Whether upkeep has mended all of it. */
export async function tidy({ scene, lane }: Stage): Promise<boolean> {
  const { redis } = scene;
  const [old, job, stray, turn, counted] = await Promise.all([
    redis.exists(laneKey(lane, "row", "old")),
    redis.exists(scene.bull(lane, "old")),
    redis.exists(scene.bull(lane, "stray")),
    redis.zscore(laneKey(lane, "state", "delayed"), "t1"),
    redis.hget(laneKey(lane, "batch", `batch-${lane}`), "s:waiting"),
  ]);
  return old + job + stray === 0 && turn === null && counted === "0";
}
