-- Takes away what is left of the job of an unsettled turn that BullMQ does not bring any more, so that it can be added anew.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 its job
-- Answer: 1 when nothing of the job is left, 0 when the turn has another job, is settled or held, or the job will come
-- Errors: none of its own
-- Twice: nothing is left the second time.
--- include turns
--- include faults
local id, job = ARGV[1], ARGV[2]
local row = try_row(id, "state", "job", "open", "attempt")
if row == nil or row.job ~= job or row.state == "settled" or is_held(id, row, now_ms()) then return 0 end
if not job_fault(job, true) then return 0 end
-- A worker has just fetched what is left of it: it will find out, and the next round looks again.
if rcall("EXISTS", BULL .. job) == 1 and rcall("EXISTS", BULL .. job .. ":lock") == 1 then return 0 end
for _, set in ipairs({"completed", "failed", "delayed", "prioritized", "waiting-children"}) do
  rcall("ZREM", BULL .. set, job)
end
for _, list in ipairs({"wait", "active", "paused"}) do
  if is_listed(job) then rcall("LREM", BULL .. list, 0, job) end
end
rcall("DEL", BULL .. job, BULL .. job .. ":logs", BULL .. job .. ":dependencies", BULL .. job .. ":processed",
  BULL .. job .. ":failed", BULL .. job .. ":unsuccessful")
-- The new job's deliveries count from 1 again: none may be taken for the one that opened the attempt which is lost.
if row.open ~= "" then rcall("HSET", K_ROW .. id, "open", "cleared") end
return 1
