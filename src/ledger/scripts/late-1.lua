-- Books what a stale attempt spent beyond what was booked for it, once.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 the usage beyond
-- Answer: 1 when it was booked, 0 when it had been or the attempt is still open
-- Errors: none of its own
-- Twice: only the first late usage of an attempt counts.
--- include turns
local id, attempt = ARGV[1], ARGV[2]
if rcall("HEXISTS", K_ATTEMPTS .. id, attempt .. ":by") == 0 then return 0 end
if rcall("HSETNX", K_ATTEMPTS .. id, attempt .. ":late", ARGV[3]) == 0 then return 0 end
count_usage(read_row(id, "batch").batch, ARGV[3])
rcall("HINCRBY", K_ROW .. id, "rev", 1)
return 1
