-- A job of BullMQ's that stands in delayed, moved as BullMQ itself would (seen in bullmq 6.7.0).

-- Moves it to wait, or among the prioritized behind its equals. Nothing when it does not stand in delayed.
local function promote_job(job)
  if rcall("ZREM", BULL .. "delayed", job) == 0 then return end
  rcall("HSET", BULL .. job, "delay", 0)
  local priority = tonumber(rcall("HGET", BULL .. job, "priority")) or 0
  if priority > 0 then
    local place = rcall("INCR", BULL .. "pc")
    rcall("ZADD", BULL .. "prioritized", priority * 0x100000000 + place % 0x100000000, job)
  else
    rcall("LPUSH", BULL .. "wait", job)
  end
  rcall("ZADD", BULL .. "marker", 0, "0")
  rcall("XADD", BULL .. "events", "MAXLEN", "~", 1000, "*", "event", "waiting", "jobId", job, "prev", "delayed")
end

-- True when it stands where the jobs stand that wait for an earlier turn of their session: an hour after they could come.
local function is_far_off(job, from)
  local due = tonumber(rcall("ZSCORE", BULL .. "delayed", job))
  return due ~= nil and due / 0x1000 > from + 600000
end

-- Has it come due at this instant.
local function delay_job(job, at)
  rcall("ZADD", BULL .. "delayed", "XX", at * 0x1000, job)
  local first = rcall("ZRANGE", BULL .. "delayed", 0, 0, "WITHSCORES")[2]
  if first then rcall("ZADD", BULL .. "marker", tonumber(first) / 0x1000, "1") end
end
