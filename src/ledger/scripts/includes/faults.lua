-- How a fault of a turn is told that no script of ours leaves: from a death between ledger and BullMQ,
-- from tools that remove jobs, or from values that are corrupt.

--- include jobs
-- A row that is no hash must not end the look at the others: its error comes back as a value.
local function try_row(id, ...)
  local names = {...}
  local values = redis.pcall("HMGET", K_ROW .. id, unpack(names))
  if values.err then return nil end
  local row = {}
  for i, name in ipairs(names) do row[name] = values[i] or "" end
  return row
end

-- True when the attempt holds its turn, or may: nothing is to be done about its job.
local function is_held(id, row, now)
  if row.open == "" then return false end
  return (tonumber(rcall("ZSCORE", K_LEASES, id .. "#" .. row.attempt)) or 0) > now
end

-- The lists that BullMQ keeps jobs in, as one table by id. Read once per script, and only where it is asked for.
local listed
local function is_listed(job)
  if not listed then
    listed = {}
    for _, list in ipairs({"wait", "active", "paused"}) do
      for _, member in ipairs(rcall("LRANGE", BULL .. list, 0, -1)) do listed[member] = true end
    end
  end
  return listed[job] == true
end

local function is_sorted(job, ...)
  for _, name in ipairs({...}) do
    if rcall("ZSCORE", BULL .. name, job) then return true end
  end
  return false
end

-- What is wrong with the job of an unsettled turn: "gone", "finished", "astray" (in none of BullMQ's lists; only
-- looked for when `deep`), or nil.
local function job_fault(job, deep)
  local kept = redis.pcall("HMGET", BULL .. job, "name", "finishedOn")
  if kept.err or not kept[1] then return "gone" end
  if kept[2] and is_sorted(job, "completed", "failed") then return "finished" end
  if deep and not is_sorted(job, "delayed", "prioritized", "waiting-children", "completed", "failed")
    and not is_listed(job) then return "astray" end
  return nil
end

-- Whether an unsettled turn's session keeps it from running for ever: it is not in the session's queue, a settled turn
-- is before it, or it is the head and nobody has woken it. Jobs that wait for a head stand an hour off.
local function session_fault(id, row, now)
  local queue = K_SESSION_QUEUE .. row.session
  if not rcall("ZSCORE", queue, id) then return true end
  local head = rcall("ZRANGE", queue, 0, 0)[1]
  if head ~= id then
    local before = try_row(head, "state")
    return before == nil or before.state == "" or before.state == "settled"
  end
  if row.state == "parked" then return true end
  return is_far_off(row.job, row.state == "delayed" and math.max(now, tonumber(row.nextAt) or 0) or now)
end
