-- Notes how far the stop of a running turn has come, for a cancel or, when nobody has cancelled it, for its worker's shutdown.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 "stoppingAt" or "killedAt"
-- Answer: 1, or 0 when the attempt is not the current one
-- Errors: none of its own
-- Twice: the first instant stands; a state is set again.
--- include turns
local row = read_row(ARGV[1], "attempt", "open", "cancelAt", "state", "batch")
if row.attempt ~= ARGV[2] or row.open == "" then return 0 end
if row.cancelAt == "" then
  -- The turn goes on elsewhere: there is nothing to remember but that it stops here.
  set_state(ARGV[1], row.batch, row.state, "stopping", now_ms())
  return 1
end
rcall("HSETNX", K_ROW .. ARGV[1], ARGV[3], now_ms())
return 1
