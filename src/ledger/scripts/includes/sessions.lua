-- A session's unsettled turns stand in one sorted set; only its head may run.
--- include jobs
--- include expiry
local function is_head(session, id)
  return rcall("ZRANGE", K_SESSION_QUEUE .. session, 0, 0)[1] == id
end

-- Has the job of the session's head come when it is due: at once, unless its own delay still runs. A head that backs
-- off, runs or was woken before is left alone, so it may be called at any time. But a job that was stored anew stands as
-- far off as that of a turn that is no head, whatever its turn does meanwhile.
local function wake_head(session, now)
  local head = rcall("ZRANGE", K_SESSION_QUEUE .. session, 0, 0)[1]
  if not head then return end
  local row = read_row(head, "state", "job", "batch", "dueAt", "nextAt", "expiresInMs")
  if row.state == "running" or row.state == "stopping" then
    -- Whoever gets it waits for the attempt that is open, or finds it lost.
    if is_far_off(row.job, now) then promote_job(row.job) end
    return
  end
  if row.state == "" or row.state == "settled" then return end
  -- Only a delay that was asked for has dueAt; a back-off has none.
  local due = tonumber(row.dueAt) or 0
  if row.state == "delayed" and due == 0 then
    due = tonumber(row.nextAt) or 0
    if not is_far_off(row.job, math.max(now, due)) then return end
  end
  if row.state == "parked" then set_expiry(head, row.expiresInMs, due, now) end
  if due > now then
    set_state(head, row.batch, row.state, "delayed", now, "nextAt", string.format("%d", due))
    delay_job(row.job, due)
  else
    set_state(head, row.batch, row.state, "waiting", now)
    promote_job(row.job)
  end
end

-- Puts a turn at the end of its session and answers whether it is parked there.
local function join_session(session, id)
  local place = rcall("HINCRBY", K_SESSION .. session, "submitted", 1)
  rcall("ZADD", K_SESSION_QUEUE .. session, place, id)
  return not is_head(session, id)
end
