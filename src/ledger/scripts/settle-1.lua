-- Closes the last attempt and settles the turn: Result, session, counts and indexes, all or nothing.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 nonce, 4 record, 5 summary, 6 usage, 7 crashed, 8 spends, 9 seq,
--       10 rev that the Result was built from, 11 Result, 12 outcome, 13 status, 14 scored, 15 passed,
--       16 messages for the session or "", 17 usage of the generation, 18 channel, then per event 2: seq, JSON
-- Answer: "settled", "stale", or "changed": what the Result was built from is out of date, build it again
-- Errors: none of its own
-- Twice: the nonce of the close is kept with the attempt.
--- include turns
--- include sessions
--- include attempts
local a = closing_attempt()
local row = read_row(a.id, "attempt", "open", "state", "batch", "session", "generation", "rev")
local verdict = fence(row, a)
if verdict == "stale" then return "stale" end
if verdict == "again" then return "settled" end
if row.rev ~= ARGV[10] then return "changed" end

local now = now_ms()
local outcome, scored, passed = ARGV[12], ARGV[14], ARGV[15]
close_attempt(a, row.batch, {unpack(ARGV, 19)})
rcall("SET", K_RESULT .. a.id .. ":" .. row.generation, ARGV[11])
set_state(a.id, row.batch, row.state, "settled", now, "open", "", "seq", a.seq, "outcome", outcome, "status", ARGV[13],
  "scored", scored, "passed", passed, "usage", ARGV[17], "settledAt", now)
if row.batch ~= "" then
  count(row.batch, "o:" .. outcome, 1)
  if scored == "1" then count(row.batch, "scored", 1) end
  if passed == "1" then count(row.batch, "passed", 1) end
  rcall("ZADD", K_BATCH_SETTLED .. row.batch, rcall("HINCRBY", K_BATCH .. row.batch, "settles", 1), a.id)
end
if row.session ~= "" then
  if ARGV[16] ~= "" then
    rcall("RPUSH", K_MESSAGES .. row.session, ARGV[16])
    rcall("HINCRBY", K_SESSION .. row.session, "iteration", 1)
  end
  rcall("ZREM", K_SESSION_QUEUE .. row.session, a.id)
  wake_head(row.session, now)
end
rcall("PUBLISH", ARGV[18], a.id)
return "settled"
