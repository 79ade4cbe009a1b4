-- Looks for turns that nothing brings on any more: a page of the unsettled ones, and of ended leases. Changes nothing.
-- KEYS: 1 the lane's tag
-- ARGV: 1 place to go on from ("" or "STATE PLACE"), 2 most rows to look at, 3 "1" to look for jobs that are in no list too
-- Answer: {next place ("" at the end), rows looked at, jobs that are missing by the sums, fault, its subject, …}; faults:
--         "corrupt" turn      its row cannot be read
--         "index:STATE" turn  the index of this state names it, its row does not say so
--         "job" turn          unsettled without a job that BullMQ would bring
--         "session" turn      its session does not let it run
--         "lease" TURN#ATTEMPT  the lease of an attempt that is not open
--         "expired" turn      was not started in time
--         "expiry" turn       cannot expire, though the index names it
-- Errors: none of its own
-- Twice: it reads only.
--- include turns
--- include pages
--- include faults
-- In this order: where few turns are and most goes wrong first.
local STATES = {"running", "stopping", "delayed", "parked", "waiting"}
-- Looking for a job in a list reads all of it: a long one would keep Redis from everything else.
local LISTED_MAX = 10000
local limit, now = tonumber(ARGV[2]), now_ms()
local deep = ARGV[3] == "1" and rcall("LLEN", BULL .. "wait") <= LISTED_MAX
local faults = {}
local function found(fault, subject)
  faults[#faults + 1] = fault
  faults[#faults + 1] = subject
end

local function look(id, state)
  local row = try_row(id, "state", "job", "open", "attempt", "session", "nextAt")
  if row == nil or (row.state ~= "" and row.job == "") then return found("corrupt", id) end
  if row.state ~= state then return found("index:" .. state, id) end
  if is_held(id, row, now) then return end
  if job_fault(row.job, deep) then found("job", id) end
  if row.session ~= "" and session_fault(id, row, now) then found("session", id) end
end

local at, place = string.match(ARGV[1], "^(%a+) (.*)$")
local seen, next_place = 0, ""
for _, state in ipairs(STATES) do
  if at == nil or at == state then
    local turns, following = page_of(K_STATE .. state, place or "", "+inf", limit - seen)
    at, place = nil, nil
    for _, id in ipairs(turns) do look(id, state) end
    seen = seen + #turns
    if following ~= "" then
      next_place = state .. " " .. following
      break
    end
  end
end

for _, member in ipairs(rcall("ZRANGEBYSCORE", K_LEASES, "-inf", now, "LIMIT", 0, 100)) do
  local id, attempt = string.match(member, "^(.*)#(%d+)$")
  local row = id and try_row(id, "open", "attempt")
  if row and (row.open == "" or row.attempt ~= attempt) then found("lease", member) end
end
for _, id in ipairs(rcall("ZRANGEBYSCORE", K_EXPIRY, "-inf", now, "LIMIT", 0, 100)) do
  local row = try_row(id, "state", "expiresAt")
  if row then found((row.state == "settled" or row.expiresAt == "") and "expiry" or "expired", id) end
end

local unsettled, jobs = 0, 0
for _, state in ipairs(STATES) do unsettled = unsettled + rcall("ZCARD", K_STATE .. state) end
for _, list in ipairs({"wait", "active", "paused"}) do jobs = jobs + rcall("LLEN", BULL .. list) end
for _, set in ipairs({"delayed", "prioritized", "waiting-children"}) do jobs = jobs + rcall("ZCARD", BULL .. set) end
return {next_place, seen, math.max(0, unsettled - jobs), unpack(faults)}
