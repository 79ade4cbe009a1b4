-- Notes what a round of upkeep has done and where the next one goes on.
-- KEYS: 1 the lane's tag
-- ARGV: 1 nonce of the round, 2 repairs, then per place 2: its field on the lane's hash, the place
-- Answer: 1
-- Errors: none of its own
-- Twice: the nonce of the last round is kept.
--- include turns
if rcall("HGET", K_LANE, "upkeepBy") == ARGV[1] then return 1 end
rcall("HSET", K_LANE, "upkeepBy", ARGV[1], "upkeepAt", now_ms(), unpack(ARGV, 3))
if tonumber(ARGV[2]) > 0 then rcall("HINCRBY", K_LANE, "repairs", ARGV[2]) end
return 1
