-- Closes the lane's gate for a provider that refused an attempt for now.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 nonce, 4 the failure's code, 5 ms until the provider may be asked again or "" when it named
--       no instant, 6 a random number from 0 to 1
-- Answer: the instant at which the gate opens, epoch ms
-- Errors: none of its own
-- Twice: the nonce of the last hit is kept with the lane.
--- include turns
--- include gate
local FIRST_MS, LONGEST_MS = 5000, 60000
-- An instant that is so near, or past, would have the provider asked in a tight loop.
local SHORTEST_MS = 1000
local NAMED_MAX_MS = 86400000
-- The attempt of a turn after which the instants that a provider names are not believed any more: the wait is then at least
-- 1 s, 2 s, 3 s … with each. One that says "in a second" all day would leave a turn with tens of thousands of attempts, all
-- of which are kept. Told by the turn, which comes first whenever the gate opens, and not by the level: a provider that
-- takes long turns and refuses in between keeps its word.
local BELIEVED = 20
local id, attempt, nonce, reason, random = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])
local gate = read_gate()
if gate.gateBy == nonce then return gate.gateUntil end

local now = now_ms()
-- Many attempts are hit at once: only one that began after the last wait tells that it was not long enough.
local again = gate.hitLevel == 0 or began_at(id, attempt, now) >= gate.hitUntil
local level = gate.hitLevel
if again then level = math.min(20, level + 1) end
local named = tonumber(ARGV[5])
local at = now
if named and named >= SHORTEST_MS then
  -- Never before the instant; a little after it, so that those who share a provider do not come in lockstep.
  at = now + math.min(named, NAMED_MAX_MS) + math.min(1000, named / 10) * random
  local doubt = tonumber(attempt) - BELIEVED
  if again and doubt > 0 then at = math.max(at, now + math.min(LONGEST_MS, SHORTEST_MS * doubt) * (1 - random / 5)) end
elseif again or now >= gate.hitUntil then
  local first = named and SHORTEST_MS or FIRST_MS
  at = now + math.min(LONGEST_MS, first * 2 ^ (level - 1)) * (1 - random / 5)
end
at = math.ceil(at)
close_gate(gate, now, at, reason)
rcall("HSET", K_LANE, "gateBy", nonce, "hitLevel", level, "hitReason", reason, "hitUntil",
  string.format("%d", math.max(at, gate.hitUntil)))
return gate.gateUntil
