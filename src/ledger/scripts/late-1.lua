-- Books what a stale attempt spent beyond what was booked for it, once.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 the usage beyond
-- Answer: 1 when it is booked; 0 when the attempt is still open or has other late usage
-- Errors: none of its own
-- Twice: only the first late usage of an attempt counts; the same again is the same call.
--- include turns
local id, attempt = ARGV[1], ARGV[2]
if rcall("HEXISTS", K_ATTEMPTS .. id, attempt .. ":by") == 0 then return 0 end
local before = rcall("HGET", K_ATTEMPTS .. id, attempt .. ":late")
if before then return before == ARGV[3] and 1 or 0 end
rcall("HSET", K_ATTEMPTS .. id, attempt .. ":late", ARGV[3])
count_usage(read_row(id, "batch").batch, ARGV[3])
rcall("HINCRBY", K_ROW .. id, "rev", 1)
return 1
