-- The lane's gate: while it is closed begin lets nobody start, and BullMQ's limiter keeps its jobs where they are.
-- On the lane's hash: gateUntil and gateReason; hitUntil, the end of the last wait that a provider's refusal
-- brought, and hitLevel, how many such waits came one after the other without a success between them;
-- requestsPerMinute and tokensPerMinute with what is left of them, requests and tokens, as it was at refilledAt.
local LIMITER = BULL .. "limiter"
-- Above the `max` of our workers' limiter, so that they obey (what BullMQ's own rateLimit writes, seen in 6.7.0).
local SHUT = "9007199254740991"
-- After two waits without a success one start has to do, every so often, until one succeeds.
local PROBE_LEVEL, PROBE_MS = 2, 1000
-- What refills is let out by so much at once: opening for each start costs more than it lets through.
local PORTION_MS = 250
local LIMITS = {{"requests", "requestsPerMinute"}, {"tokens", "tokensPerMinute"}}

local function read_gate()
  local names = {"gateUntil", "hitUntil", "hitLevel", "gateBy", "requestsPerMinute", "tokensPerMinute", "requests",
    "tokens", "refilledAt"}
  local values = rcall("HMGET", K_LANE, unpack(names))
  local gate = {}
  for i, name in ipairs(names) do gate[name] = name == "gateBy" and values[i] or tonumber(values[i] or "") end
  gate.gateUntil, gate.hitUntil, gate.hitLevel = gate.gateUntil or 0, gate.hitUntil or 0, gate.hitLevel or 0
  return gate
end

-- Has BullMQ's limiter hold as long as the gate does, also when somebody has removed it.
local function shut_limiter(gate, now)
  local left = gate.gateUntil - now
  if left <= 0 or (rcall("GET", LIMITER) == SHUT and rcall("PTTL", LIMITER) >= left) then return end
  rcall("SET", LIMITER, SHUT, "PX", left)
end

-- Closes the gate until an instant; the later of the old and the new one wins.
local function close_gate(gate, now, at, reason)
  at = math.ceil(at)
  if at > gate.gateUntil then
    gate.gateUntil = at
    rcall("HSET", K_LANE, "gateUntil", string.format("%d", at), "gateReason", reason)
  end
  shut_limiter(gate, now)
end

-- At most so much at once, and what flows in per ms: together never more than the limit within any minute.
local function flow(per_minute)
  local burst = math.max(1, math.ceil(per_minute / 60))
  return burst, (per_minute - burst + 1) / 60000
end

local function refill(gate, now)
  local passed = gate.refilledAt and math.max(0, now - gate.refilledAt)
  gate.refilledAt = now
  for _, limit in ipairs(LIMITS) do
    local name, per_minute = limit[1], gate[limit[2]]
    if per_minute then
      local burst, per_ms = flow(per_minute)
      if passed and gate[name] then gate[name] = math.min(burst, gate[name] + passed * per_ms)
      else gate[name] = burst end
    end
  end
end

-- Takes from both limits. What is used already may leave debt, but none that a minute does not pay: a provider
-- looks no further back. Closes the gate when there is nothing left to start with.
local function take(gate, now, requests, tokens)
  refill(gate, now)
  local taken = {requests = requests, tokens = tokens}
  local fields = {"refilledAt", string.format("%d", now)}
  for _, limit in ipairs(LIMITS) do
    local name, per_minute = limit[1], gate[limit[2]]
    if per_minute then
      gate[name] = math.max(-per_minute, gate[name] - taken[name])
      fields[#fields + 1] = name
      fields[#fields + 1] = string.format("%.6f", gate[name])
    end
  end
  rcall("HSET", K_LANE, unpack(fields))
  for _, limit in ipairs(LIMITS) do
    local name, per_minute = limit[1], gate[limit[2]]
    if per_minute and gate[name] < 1 then
      local burst, per_ms = flow(per_minute)
      local portion = math.min(burst, math.max(1, PORTION_MS * per_ms))
      close_gate(gate, now, now + math.max(1, (portion - gate[name]) / per_ms), limit[2])
    end
  end
end

local function limited(gate)
  return gate.requestsPerMinute or gate.tokensPerMinute
end

-- For begin: lets one attempt start, and answers nil; or how many ms the gate is closed for.
local function pass_gate(now)
  local gate = read_gate()
  if gate.gateUntil > now then
    shut_limiter(gate, now)
    return gate.gateUntil - now
  end
  if limited(gate) then
    refill(gate, now)
    local empty = (gate.requestsPerMinute and gate.requests < 1) or (gate.tokensPerMinute and gate.tokens < 1)
    take(gate, now, empty and 0 or 1, 0)
    if empty then return gate.gateUntil - now end
  end
  if gate.hitLevel >= PROBE_LEVEL then
    close_gate(gate, now, now + PROBE_MS, rcall("HGET", K_LANE, "hitReason") or "")
  end
  return nil
end

-- When an attempt that is open began, epoch ms.
local function began_at(id, attempt, now)
  local json = rcall("HGET", K_ATTEMPTS .. id, attempt)
  return json and tonumber(cjson.decode(json).startedAt) or now
end

-- For close and settle: books what the attempt used beyond its first call; ok: it ended well, so that the
-- provider answers again. To be called before the attempt is closed.
local function leave_gate(a, now, ok)
  local gate = read_gate()
  if limited(gate) then
    local usage = cjson.decode(a.usage)
    local tokens = 0
    for _, name in ipairs({"inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"}) do
      tokens = tokens + (usage[name] or 0)
    end
    take(gate, now, math.max(0, (usage.modelCalls or 0) - 1), tokens)
  end
  if ok and gate.hitLevel > 0 and began_at(a.id, a.attempt, now) >= gate.hitUntil then
    rcall("HSET", K_LANE, "hitLevel", 0)
  end
end
