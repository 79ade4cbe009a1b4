-- Claims the upkeep of the lane for one worker, for a while.
-- KEYS: 1 the lane's tag
-- ARGV: 1 who claims, 2 for how long in ms; 0 gives the claim up
-- Answer: {1, place of the scan, place of the retention, place of the stray jobs, place of the batches}, each "" at the
--         start; {0} when another one has it
-- Errors: none of its own
-- Twice: who has the claim gets it again.
--- include turns
local holder = rcall("GET", K_GUARD)
if holder and holder ~= ARGV[1] then return {0} end
if ARGV[2] == "0" then
  rcall("DEL", K_GUARD)
  return {0}
end
rcall("SET", K_GUARD, ARGV[1], "PX", ARGV[2])
local places = rcall("HMGET", K_LANE, "scanPlace", "agedPlace", "strayPlace", "batchPlace")
return {1, places[1] or "", places[2] or "", places[3] or "", places[4] or ""}
