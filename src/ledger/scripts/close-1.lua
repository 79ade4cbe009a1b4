-- Closes an attempt that is followed by another: back-off or handed back.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 nonce, 4 record, 5 summary, 6 usage, 7 crashed, 8 spends, 9 seq,
--       10 next state ("delayed" or "waiting"), 11 ms until then, then per event 2: seq, JSON
-- Answer: "closed" or "stale"
-- Errors: none of its own
-- Twice: the nonce of the close is kept with the attempt.
--- include turns
--- include attempts
local a = closing_attempt()
local row = read_row(a.id, "attempt", "open", "state", "batch")
local verdict = fence(row, a)
if verdict == "stale" then return "stale" end
if verdict == "closed" then
  local now = now_ms()
  close_attempt(a, row.batch, {unpack(ARGV, 12)})
  set_state(a.id, row.batch, row.state, ARGV[10], now, "open", "", "seq", a.seq, "nextAt", now + tonumber(ARGV[11]))
end
return "closed"
