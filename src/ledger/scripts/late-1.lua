-- Books what a stale attempt spent beyond what was booked for it.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 the late usage as it shall stand, 4 the late usage that it was built on or "", 5 what it adds
-- Answer: 1 when it is booked; 0 when the attempt is still open or other late usage stands: read anew
-- Errors: none of its own
-- Twice: late usage that stands already is booked.
--- include turns
local id, attempt = ARGV[1], ARGV[2]
if rcall("HEXISTS", K_ATTEMPTS .. id, attempt .. ":by") == 0 then return 0 end
local before = rcall("HGET", K_ATTEMPTS .. id, attempt .. ":late")
if before == ARGV[3] then return 1 end
if (before or "") ~= ARGV[4] then return 0 end
rcall("HSET", K_ATTEMPTS .. id, attempt .. ":late", ARGV[3])
count_usage(read_row(id, "batch").batch, ARGV[5])
rcall("HINCRBY", K_ROW .. id, "rev", 1)
return 1
