-- Opens the next generation of a settled turn: retry budgets and expiry start anew, attempt numbers
-- go on, the old Result stays, no delay. Answers the new generation and the state that it begins in.
local function open_generation(id, job, now)
  local row = read_row(id, "generation", "attempt", "batch", "session", "outcome", "scored", "passed", "expiresInMs")
  local generation = tonumber(row.generation) + 1
  rcall("HSET", K_ROW .. id, "generation", generation, "firstAttempt", tonumber(row.attempt) + 1, "spent", 0,
    "crashes", 0, "job", job, "submittedAt", now)
  rcall("HDEL", K_ROW .. id, "outcome", "status", "scored", "passed", "settledAt", "startedAt", "usage", "nextAt", "worker",
    "cancelAt", "cancelReason", "cancelBy", "stoppingAt", "killedAt")
  rcall("HINCRBY", K_ROW .. id, "rev", 1)
  count(row.batch, "o:" .. row.outcome, -1)
  if row.scored == "1" then count(row.batch, "scored", -1) end
  if row.passed == "1" then count(row.batch, "passed", -1) end
  if row.batch ~= "" then rcall("ZREM", K_BATCH_SETTLED .. row.batch, id) end
  local state = "waiting"
  if row.session ~= "" and join_session(row.session, id) then state = "parked" end
  if state ~= "parked" then set_expiry(id, row.expiresInMs, 0, now) end
  set_state(id, row.batch, "settled", state, now)
  return generation, state
end
