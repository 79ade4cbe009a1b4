-- Whether the worker of an open attempt may still be alive: ms to wait before looking again, or nil
-- when its lease has ended and no grace runs, so that the attempt is lost.
local function lease_left(id, attempt, now, max_gap)
  local lane = rcall("HMGET", K_LANE, "renewedAt", "graceUntil")
  if now - (tonumber(lane[1]) or 0) > max_gap or now < (tonumber(lane[2]) or 0) then return 1000 end
  local lease = tonumber(rcall("ZSCORE", K_LEASES, id .. "#" .. attempt)) or 0
  if lease > now then return lease - now + 50 end
  return nil
end
