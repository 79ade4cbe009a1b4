-- Closes the last attempt and settles the turn: Result, session, counts and indexes, all or nothing.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 nonce, 4 record, 5 summary, 6 usage, 7 crashed, 8 spends, 9 seq,
--       10 rev that the Result was built from, 11 Result, 12 outcome, 13 status, 14 scored, 15 passed,
--       16 messages for the session or "", 17 usage of the generation, 18 channel, then per event 2: seq, JSON
-- Answer: "settled", "stale", or "changed": what the Result was built from is out of date, build it again.
--         A cancel changes it too: the flag is read here, by the rev that it raised.
-- Errors: none of its own
-- Twice: the nonce of the close is kept with the attempt.
--- include turns
--- include sessions
--- include attempts
--- include gate
--- include settling
local a = closing_attempt()
local row = read_row(a.id, "attempt", "open", "state", "batch", "session", "generation", "rev")
local verdict = fence(row, a)
if verdict == "stale" then return "stale" end
if verdict == "again" then return "settled" end
if row.rev ~= ARGV[10] then return "changed" end

local now = now_ms()
leave_gate(a, now, ARGV[12] == "ok")
close_attempt(a, row.batch, {unpack(ARGV, 19)})
if row.session ~= "" and ARGV[16] ~= "" then
  rcall("RPUSH", K_MESSAGES .. row.session, ARGV[16])
  rcall("HINCRBY", K_SESSION .. row.session, "iteration", 1)
end
settle_turn(a.id, row, now, {result = ARGV[11], outcome = ARGV[12], status = ARGV[13], scored = ARGV[14],
  passed = ARGV[15], usage = ARGV[17], channel = ARGV[18]}, "seq", a.seq)
return "settled"
