-- Which settled turns may be removed: those of no session with unsettled turns, and of no batch that is unfinished or
-- ended after `cutoff`.

local rests = {}
local function batch_rests(batch, cutoff)
  if rests[batch] ~= nil then return rests[batch] end
  local counts = rcall("HMGET", K_BATCH .. batch, "turns", "s:settled")
  local last = rcall("ZRANGE", K_BATCH_SETTLED .. batch, -1, -1)[1]
  local row = last and try_row(last, "settledAt")
  local ended = row and tonumber(row.settledAt) or 0
  rests[batch] = (tonumber(counts[2]) or 0) >= (tonumber(counts[1]) or 0) and ended <= cutoff
  return rests[batch]
end

-- The row of a turn that may go; nil when it stays. A row that is gone already has the state "".
local function may_go(id, highest, cutoff)
  local row = try_row(id, "state", "settledAt", "batch", "session", "generation", "attempt", "job", "outcome", "scored", "passed")
  if row == nil or row.state == "" then return row end
  if row.state ~= "settled" or (tonumber(row.settledAt) or 0) > highest then return nil end
  if row.session ~= "" and rcall("ZCARD", K_SESSION_QUEUE .. row.session) > 0 then return nil end
  if row.batch ~= "" and not batch_rests(row.batch, cutoff) then return nil end
  return row
end
