-- Closes an attempt that is followed by another: back-off or handed back.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 nonce, 4 record, 5 summary, 6 usage, 7 crashed, 8 spends, 9 seq,
--       10 seq that the record was read to or "", 11 next state ("delayed" or "waiting"), 12 ms until then,
--       then per event 2: seq, JSON
-- Answer: "closed", "stale", "behind": make the record anew, or "cancelled": nothing follows any more, the turn is to be
--         settled instead
-- Errors: none of its own
-- Twice: the nonce of the close is kept with the attempt.
--- include turns
--- include attempts
--- include gate
local a = closing_attempt()
local row = read_row(a.id, "attempt", "open", "state", "batch", "cancelAt")
local verdict = fence(row, a)
if verdict == "stale" or verdict == "behind" then return verdict end
if verdict == "closed" then
  if row.cancelAt ~= "" then return "cancelled" end
  local now = now_ms()
  leave_gate(a, now, false)
  close_attempt(a, row.batch, {unpack(ARGV, 13)})
  rcall("HINCRBY", K_ROW .. a.id, "rev", 1)
  set_state(a.id, row.batch, row.state, ARGV[11], now, "open", "", "seq", a.seq, "nextAt", now + tonumber(ARGV[12]))
end
return "closed"
