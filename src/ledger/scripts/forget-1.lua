-- Takes turns out of a batch whose rows are gone, and drops batches of which nothing but the counts is left.
-- KEYS: 1 the lane's tag
-- ARGV: 1 the instant since when nothing but counts has been left, 2 batch, then turns; without turns the batch is dropped
-- Answer: 1
-- Errors: none of its own
-- Twice: a turn is taken out of the index once.
--- include turns
--- include batches
local batch = ARGV[2]
if #ARGV == 2 then
  if is_old(batch, tonumber(ARGV[1])) then
    rcall("DEL", K_BATCH .. batch, K_BATCH_SETTLED .. batch)
    rcall("ZREM", K_BATCHES, batch)
  end
  return 1
end
for i = 3, #ARGV do
  if rcall("EXISTS", K_ROW .. ARGV[i]) == 0 and rcall("ZREM", K_BATCH_TURNS .. batch, ARGV[i]) == 1 then
    rcall("ZREM", K_BATCH_SETTLED .. batch, ARGV[i])
    rcall("HINCRBY", K_BATCH .. batch, "retired", 1)
    -- It counts as settled without an outcome, so that the batch ends.
    rcall("HINCRBY", K_BATCH .. batch, "gone", 1)
    rcall("HSET", K_BATCH .. batch, "retiredAt", now_ms())
  end
end
return 1
