-- What every script needs: the clock, the row, and the one way to change a turn's state.
local rcall = redis.call
local LANE = string.sub(KEYS[1], 8, -2)
-- BullMQ's keys of this lane: prefix {turnq:LANE}, queue LANE.
local BULL = KEYS[1] .. ":" .. LANE .. ":"

-- Epoch ms by Redis's own clock: instants that decide never come from a client.
local function now_ms()
  local time = rcall("TIME")
  return tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
end

-- The named fields of a turn's row, as a table; missing ones are "".
local function read_row(id, ...)
  local names = {...}
  local values = rcall("HMGET", K_ROW .. id, unpack(names))
  local row = {}
  for i, name in ipairs(names) do row[name] = values[i] or "" end
  return row
end

local function count(batch, field, by)
  if batch ~= "" then rcall("HINCRBY", K_BATCH .. batch, field, by) end
end

-- The one place where a turn's state is written: row (with the further fields and values that are
-- given), index and batch count change together.
local function set_state(id, batch, from, to, now, ...)
  rcall("HSET", K_ROW .. id, "state", to, ...)
  if from == to then return end
  if from ~= "" then
    rcall("ZREM", K_STATE .. from, id)
    count(batch, "s:" .. from, -1)
  end
  rcall("ZADD", K_STATE .. to, now, id)
  count(batch, "s:" .. to, 1)
end

-- Adds a Usage (flat JSON) to a batch's totals. A total that Redis cannot hold any more stays as it is: what agents
-- claim to have used stops no script halfway.
local function count_usage(batch, usage_json)
  if batch == "" then return end
  for field, value in pairs(cjson.decode(usage_json)) do
    if field == "known" then
      rcall("HINCRBY", K_BATCH .. batch, "known:" .. value, 1)
    elseif field == "costUsd" then
      -- In billionths of a dollar: whole numbers add up exactly.
      redis.pcall("HINCRBY", K_BATCH .. batch, "u:costNanoUsd", string.format("%.0f", value * 1e9))
    elseif value > 0 or (field ~= "modelCalls" and field ~= "toolCalls") then
      redis.pcall("HINCRBY", K_BATCH .. batch, "u:" .. field, value)
    end
  end
end
