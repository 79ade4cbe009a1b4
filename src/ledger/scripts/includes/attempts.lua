-- The open attempt of a turn and its close, for close and settle.

-- ARGV 1 to 10 of both.
local function closing_attempt()
  return {id = ARGV[1], attempt = ARGV[2], nonce = ARGV[3], record = ARGV[4], summary = ARGV[5], usage = ARGV[6],
    crashed = ARGV[7], spends = ARGV[8], seq = ARGV[9], read_to = tonumber(ARGV[10])}
end

-- The seq of the last event in the attempt's stream; nil when there is no stream.
local function flushed_to(a)
  local last = rcall("XREVRANGE", K_EVENTS .. a.id .. ":" .. a.attempt, "+", "-", "COUNT", 1)[1]
  return last and tonumber(string.match(last[1], "^%d+"))
end

-- Answers "closed", "again" when this very close (nonce) was done before, "stale" when the attempt is no longer the
-- current one, or "behind" when its own worker has stored more since its record was made by another.
local function fence(row, a)
  if row.attempt == a.attempt and row.open ~= "" then
    if a.read_to and (flushed_to(a) or 0) > a.read_to then return "behind" end
    return "closed"
  end
  if rcall("HGET", K_ATTEMPTS .. a.id, a.attempt .. ":by") == a.nonce then return "again" end
  return "stale"
end

-- a: as above; events: {seq, json, …}. What the row says of the attempt is the caller's: open "", seq.
local function close_attempt(a, batch, events)
  rcall("SET", K_RECORD .. a.id .. ":" .. a.attempt, a.record)
  rcall("HSET", K_ATTEMPTS .. a.id, a.attempt, a.summary, a.attempt .. ":by", a.nonce)
  rcall("ZREM", K_LEASES, a.id .. "#" .. a.attempt)
  if a.spends == "attempt" then rcall("HINCRBY", K_ROW .. a.id, "spent", 1) end
  if a.spends == "crash" then rcall("HINCRBY", K_ROW .. a.id, "crashes", 1) end
  count(batch, "attempts", 1)
  if a.crashed == "1" then
    rcall("HINCRBY", K_ROW .. a.id, "crashed", 1)
    count(batch, "crashed", 1)
  end
  count_usage(batch, a.usage)
  -- A turn that ended before its first flush has no stream: nobody watches it, the record has its events.
  local flushed = flushed_to(a)
  if flushed then
    local stream = K_EVENTS .. a.id .. ":" .. a.attempt
    for i = 1, #events, 2 do
      if tonumber(events[i]) > flushed then rcall("XADD", stream, events[i] .. "-0", "e", events[i + 1]) end
    end
    rcall("PEXPIRE", stream, 600000)
  end
end
