-- Closes the last attempt and settles the turn: Result, session, counts and indexes, all or nothing.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 nonce, 4 record, 5 summary, 6 usage, 7 crashed, 8 spends, 9 seq,
--       10 seq that the record was read to or "", 11 rev that the Result was built from, 12 Result, 13 outcome,
--       14 status, 15 scored, 16 passed, 17 messages for the session or "", 18 usage of the generation, 19 channel,
--       then per event 2: seq, JSON
-- Answer: "settled", "stale", "behind": make the record anew, or "changed": what the Result was built from is out of
--         date, build it again.
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
if verdict == "stale" or verdict == "behind" then return verdict end
if verdict == "again" then return "settled" end
if row.rev ~= ARGV[11] then return "changed" end

local now = now_ms()
leave_gate(a, now, ARGV[13] == "ok")
close_attempt(a, row.batch, {unpack(ARGV, 20)})
if row.session ~= "" and ARGV[17] ~= "" then
  rcall("RPUSH", K_MESSAGES .. row.session, ARGV[17])
  rcall("HINCRBY", K_SESSION .. row.session, "iteration", 1)
end
settle_turn(a.id, row, now, {result = ARGV[12], outcome = ARGV[13], status = ARGV[14], scored = ARGV[15],
  passed = ARGV[16], usage = ARGV[18], channel = ARGV[19]}, "seq", a.seq)
return "settled"
