-- A session's unsettled turns stand in one sorted set; only its head may run.
local function is_head(session, id)
  return rcall("ZRANGE", K_SESSION_QUEUE .. session, 0, 0)[1] == id
end

-- Moves the job of the session's head from delayed to wait, when it stands there. A head that
-- backs off, runs or was woken before is left alone, so it may be called at any time.
local function wake_head(session, now)
  local head = rcall("ZRANGE", K_SESSION_QUEUE .. session, 0, 0)[1]
  if not head then return end
  local row = read_row(head, "state", "job", "batch")
  if row.state ~= "parked" and row.state ~= "waiting" then return end
  set_state(head, row.batch, row.state, "waiting", now)
  if rcall("ZREM", BULL .. "delayed", row.job) == 1 then
    rcall("HSET", BULL .. row.job, "delay", 0)
    rcall("LPUSH", BULL .. "wait", row.job)
    rcall("ZADD", BULL .. "marker", 0, "0")
    rcall("XADD", BULL .. "events", "MAXLEN", "~", 1000, "*", "event", "waiting", "jobId", row.job, "prev", "delayed")
  end
end

-- Puts a turn at the end of its session and answers the state that it begins in.
local function join_session(session, id)
  local place = rcall("HINCRBY", K_SESSION .. session, "submitted", 1)
  rcall("ZADD", K_SESSION_QUEUE .. session, place, id)
  if is_head(session, id) then return "waiting" end
  return "parked"
end
