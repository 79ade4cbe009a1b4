-- What must hold of a batch's counts, as far as it can be seen without reading its turns.

local STATES = {"s:running", "s:stopping", "s:delayed", "s:parked", "s:waiting", "s:settled"}
local OUTCOMES = {"o:ok", "o:failed", "o:cancelled", "o:expired"}

-- A batch whose turns are all retired, the last of them before the cutoff.
local function is_old(batch, cutoff)
  if rcall("EXISTS", K_BATCH_TURNS .. batch) == 1 then return false end
  local retired = redis.pcall("HGET", K_BATCH .. batch, "retiredAt")
  return type(retired) == "string" and tonumber(retired) <= cutoff
end

local function sums_agree(batch)
  local counts = redis.pcall("HGETALL", K_BATCH .. batch)
  if counts.err then return true end
  local number = {}
  for i = 1, #counts, 2 do number[counts[i]] = tonumber(counts[i + 1]) end
  local function sum(names)
    local all = 0
    for _, name in ipairs(names) do
      local value = number[name] or 0
      if value < 0 then return -1 end
      all = all + value
    end
    return all
  end
  local turns, retired, settled = number.turns or 0, number.retired or 0, number["s:settled"] or 0
  return sum(STATES) == turns and sum(OUTCOMES) + (number.gone or 0) == settled
    and rcall("ZCARD", K_BATCH_TURNS .. batch) + retired == turns
    and rcall("ZCARD", K_BATCH_SETTLED .. batch) + retired == settled
end
