-- Renews a worker's leases in this lane; the only call that opens a grace.
-- KEYS: 1 the lane's tag
-- ARGV: 1 lease in ms, 2 longest gap between renewals in ms, 3 grace in ms, then per attempt 2: turn, attempt
-- Answer: {lost, cancelled}: the places (from 1) of the attempts that are no longer current, and of those to be stopped
-- Errors: none of its own
-- Twice: the second call finds no gap and sets the same leases a little later.
--- include turns
local now = now_ms()
local renewed = tonumber(rcall("HGET", K_LANE, "renewedAt"))
-- A gap means that Redis or all workers were away: nobody could renew, so nobody is to be found lost yet.
if renewed and now - renewed > tonumber(ARGV[2]) then rcall("HSET", K_LANE, "graceUntil", now + tonumber(ARGV[3])) end
rcall("HSET", K_LANE, "renewedAt", now)
local lost, cancelled = {}, {}
for i = 4, #ARGV, 2 do
  local row = read_row(ARGV[i], "attempt", "open", "cancelAt")
  if row.attempt == ARGV[i + 1] and row.open ~= "" then
    rcall("ZADD", K_LEASES, now + tonumber(ARGV[1]), ARGV[i] .. "#" .. ARGV[i + 1])
    if row.cancelAt ~= "" then cancelled[#cancelled + 1] = (i - 2) / 2 end
  else
    lost[#lost + 1] = (i - 2) / 2
  end
end
return {lost, cancelled}
