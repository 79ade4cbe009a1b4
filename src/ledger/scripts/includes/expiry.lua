-- The instant at which a turn expires that was not started. Time parked does not count: a parked
-- turn has none yet, and no turn is parked again once it has left.

-- Sets it for a turn that is no longer parked; due: when its delay ends, or 0.
local function set_expiry(id, expires_in, due, now)
  if expires_in == "" then return end
  local at = math.max(now, due) + tonumber(expires_in)
  rcall("HSET", K_ROW .. id, "expiresAt", string.format("%d", at))
  rcall("ZADD", K_EXPIRY, at, id)
end

-- A turn that has been started, or is settled, does not expire; nor is it kept waiting for its first start.
local function end_expiry(id)
  rcall("ZREM", K_EXPIRY, id)
  rcall("HDEL", K_ROW .. id, "expiresAt", "dueAt")
end
