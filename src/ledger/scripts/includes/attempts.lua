-- Closes the open attempt of a turn, for close and settle.
-- Answers "closed", "again" when this very close (nonce) was done before, or "stale" when the
-- attempt is no longer the current one.
local function fence(id, attempt, nonce)
  local row = read_row(id, "attempt", "open")
  if row.attempt == attempt and row.open ~= "" then return "closed" end
  if rcall("HGET", K_ATTEMPTS .. id, attempt .. ":by") == nonce then return "again" end
  return "stale"
end

-- a: {id, attempt, nonce, record, summary, usage, crashed ("1" or "0"), spends, seq}; events: {seq, json, …}
local function close_attempt(a, batch, events, now)
  rcall("SET", K_RECORD .. a.id .. ":" .. a.attempt, a.record)
  rcall("HSET", K_ATTEMPTS .. a.id, a.attempt, a.summary, a.attempt .. ":by", a.nonce)
  rcall("ZREM", K_LEASES, a.id .. "#" .. a.attempt)
  rcall("HSET", K_ROW .. a.id, "open", "", "seq", a.seq)
  if a.spends == "attempt" then rcall("HINCRBY", K_ROW .. a.id, "spent", 1) end
  if a.spends == "crash" then rcall("HINCRBY", K_ROW .. a.id, "crashes", 1) end
  count(batch, "attempts", 1)
  if a.crashed == "1" then
    rcall("HINCRBY", K_ROW .. a.id, "crashed", 1)
    count(batch, "crashed", 1)
  end
  count_usage(batch, a.usage)
  -- A turn that ended before its first flush has no stream: nobody watches it, the record has its events.
  local stream = K_EVENTS .. a.id .. ":" .. a.attempt
  local last = rcall("XREVRANGE", stream, "+", "-", "COUNT", 1)[1]
  if last then
    local flushed = tonumber(string.match(last[1], "^%d+"))
    for i = 1, #events, 2 do
      if tonumber(events[i]) > flushed then rcall("XADD", stream, events[i] .. "-0", "e", events[i + 1]) end
    end
    rcall("PEXPIRE", stream, 600000)
  end
end
