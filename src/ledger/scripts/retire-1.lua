-- Removes settled turns with all that is stored of them, their jobs included. Counts of batches stay.
-- KEYS: 1 the lane's tag
-- ARGV: 1 up to what instant of settling they may go, 2 the instant by which a batch must have ended, then the turns
-- Answer: 1
-- Errors: none of its own
-- Twice: what is gone is not found again.
--- include turns
--- include faults
--- include aging
local highest, cutoff = tonumber(ARGV[1]), tonumber(ARGV[2])

-- A job that a worker holds is left: it ends as a stray.
local function remove_job(job)
  if rcall("EXISTS", BULL .. job .. ":lock") == 1 then return end
  if rcall("EXISTS", BULL .. job) == 0 then return end
  local gone = 0
  for _, set in ipairs({"completed", "failed", "delayed", "prioritized", "waiting-children"}) do
    gone = gone + rcall("ZREM", BULL .. set, job)
  end
  if gone == 0 and is_listed(job) then
    for _, list in ipairs({"wait", "active", "paused"}) do rcall("LREM", BULL .. list, 0, job) end
  end
  rcall("UNLINK", BULL .. job, BULL .. job .. ":logs", BULL .. job .. ":dependencies", BULL .. job .. ":processed",
    BULL .. job .. ":failed", BULL .. job .. ":unsuccessful")
end

local function leave_batch(id, row)
  local batch = K_BATCH .. row.batch
  rcall("ZREM", K_BATCH_TURNS .. row.batch, id)
  rcall("ZREM", K_BATCH_SETTLED .. row.batch, id)
  -- What the counts hold of turns that are gone: a recount adds it to what it finds.
  rcall("HINCRBY", batch, "retired", 1)
  rcall("HSET", batch, "retiredAt", now_ms())
  rcall("HINCRBY", batch, "r:" .. row.outcome, 1)
  if row.scored == "1" then rcall("HINCRBY", batch, "r:scored", 1) end
  if row.passed == "1" then rcall("HINCRBY", batch, "r:passed", 1) end
end

-- Each generation has joined the session once: when as many are gone as have joined, it is empty.
local function leave_session(session, generations)
  local gone = rcall("HINCRBY", K_SESSION .. session, "retired", generations)
  if gone >= (tonumber(rcall("HGET", K_SESSION .. session, "submitted")) or 0) then
    rcall("UNLINK", K_SESSION .. session, K_MESSAGES .. session, K_SESSION_QUEUE .. session)
  end
end

for i = 3, #ARGV do
  local id = ARGV[i]
  local row = may_go(id, highest, cutoff)
  if row and row.state == "" then
    rcall("ZREM", K_STATE .. "settled", id)
  elseif row then
    local generations = tonumber(row.generation) or 1
    for attempt = 1, tonumber(row.attempt) or 0 do
      rcall("UNLINK", K_RECORD .. id .. ":" .. attempt, K_EVENTS .. id .. ":" .. attempt)
    end
    for generation = 1, generations do rcall("UNLINK", K_RESULT .. id .. ":" .. generation) end
    local first = string.gsub(row.job, "~%d+$", "")
    remove_job(first)
    for generation = 2, generations do remove_job(first .. "~" .. generation) end
    if row.batch ~= "" then leave_batch(id, row) end
    if row.session ~= "" then leave_session(row.session, generations) end
    rcall("ZREM", K_STATE .. "settled", id)
    rcall("UNLINK", K_ROW .. id, K_REQUEST .. id, K_ATTEMPTS .. id)
    rcall("HINCRBY", K_LANE, "retired", 1)
  end
end
return 1
