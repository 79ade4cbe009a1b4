-- Ends a turn that nobody runs, or has whoever runs it stop it.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 "cancelled" or "expired", 3 nonce, 4 reason, 5 by whom or "", 6 longest gap between renewals in ms,
--       7 rev that the Result was built from, 8 Result, 9 usage of the generation, 10 channel of settled turns,
--       11 channel of cancels
-- Answer: {"missing"}
--         {"ended"}      this call has settled it
--         {"settled"}    it was settled before, and stays as it is
--         {"changed"}    what the Result was built from is out of date: build it again
--         {"requested"}  an attempt is open: it is told to stop, now or before; the first reason stands
--         {"lost", attempt, announces}  as requested, but its lease has ended: close it as lost, then it is settled
--         {"undue"}      only "expired": it has been started, or its time is not over
-- Errors: none of its own
-- Twice: the nonce of the call that settled it is kept on the row; a flag that is set is not set again.
--- include turns
--- include sessions
--- include leases
--- include settling
local id, how, nonce, reason, by = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local row = read_row(id, "state", "open", "attempt", "generation", "rev", "job", "batch", "session", "cancelAt", "endedBy",
  "expiresAt")
if row.state == "" then return {"missing"} end
if row.endedBy == nonce then return {"ended"} end
if row.state == "settled" then return {"settled"} end

local now = now_ms()
if how == "expired" and (row.open ~= "" or row.expiresAt == "" or tonumber(row.expiresAt) > now) then return {"undue"} end
if row.open ~= "" then
  if row.cancelAt == "" then
    set_state(id, row.batch, row.state, "stopping", now, "cancelAt", now, "cancelReason", reason, "cancelBy", by)
    rcall("HINCRBY", K_ROW .. id, "rev", 1)
    rcall("PUBLISH", ARGV[11], id)
  end
  if lease_left(id, row.attempt, now, tonumber(ARGV[6])) then return {"requested"} end
  return {"lost", tonumber(row.attempt), rcall("HGET", K_ROW .. id, "announces") or "0"}
end
if row.rev ~= ARGV[7] then return {"changed"} end

end_expiry(id)
if how == "cancelled" then
  rcall("HSET", K_ROW .. id, "cancelAt", now, "cancelReason", reason, "cancelBy", by)
end
settle_turn(id, row, now, {result = ARGV[8], outcome = how, status = how, scored = "0", passed = "0", usage = ARGV[9],
  channel = ARGV[10]}, "endedBy", nonce)
rcall("HINCRBY", K_ROW .. id, "seq", 1)
-- Its job ends when a worker meets it, which may as well be soon.
promote_job(row.job)
return {"ended"}
