-- Closes an attempt that is followed by another: back-off or handed back.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 nonce, 4 record, 5 summary, 6 usage, 7 crashed, 8 spends, 9 seq,
--       10 next state ("delayed" or "waiting"), 11 ms until then, then per event 2: seq, JSON
-- Answer: "closed" or "stale"
-- Errors: none of its own
-- Twice: the nonce of the close is kept with the attempt.
--- include turns
--- include attempts
local a = {id = ARGV[1], attempt = ARGV[2], nonce = ARGV[3], record = ARGV[4], summary = ARGV[5], usage = ARGV[6],
  crashed = ARGV[7], spends = ARGV[8], seq = ARGV[9]}
local verdict = fence(a.id, a.attempt, a.nonce)
if verdict == "stale" then return "stale" end
if verdict == "closed" then
  local now = now_ms()
  local row = read_row(a.id, "state", "batch")
  close_attempt(a, row.batch, {unpack(ARGV, 12)}, now)
  rcall("HSET", K_ROW .. a.id, "nextAt", now + tonumber(ARGV[11]))
  set_state(a.id, row.batch, row.state, ARGV[10], now)
end
return "closed"
