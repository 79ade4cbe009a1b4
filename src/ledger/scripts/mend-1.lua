-- Puts right what stands in the ledger's indexes and sessions against the rows.
-- KEYS: 1 the lane's tag
-- ARGV: per fault 2, as the script scan names them: "index:STATE" turn, "session" turn, "lease" TURN#ATTEMPT,
--       "expiry" turn
-- Answer: 1
-- Errors: none of its own
-- Twice: what is right is left alone.
--- include turns
--- include sessions
--- include faults
local now = now_ms()

local function mend_index(state, id)
  local row = try_row(id, "state")
  if row == nil or row.state == state then return end
  rcall("ZREM", K_STATE .. state, id)
  if row.state ~= "" then rcall("ZADD", K_STATE .. row.state, "NX", now, id) end
end

local function mend_session(id)
  local row = try_row(id, "state", "session")
  if row == nil or row.state == "" or row.state == "settled" or row.session == "" then return end
  local queue = K_SESSION_QUEUE .. row.session
  if not rcall("ZSCORE", queue, id) then join_session(row.session, id) end
  -- Neither a turn that is settled or gone nor one that can never be read holds up those behind it.
  for _ = 1, 100 do
    local head = rcall("ZRANGE", queue, 0, 0)[1]
    if not head then return end
    local first = try_row(head, "state")
    if first and first.state ~= "" and first.state ~= "settled" then break end
    rcall("ZREM", queue, head)
  end
  wake_head(row.session, now)
end

for i = 1, #ARGV, 2 do
  local fault, subject = ARGV[i], ARGV[i + 1]
  if fault == "session" then
    mend_session(subject)
  elseif fault == "lease" then
    local id, attempt = string.match(subject, "^(.*)#(%d+)$")
    local row = id and try_row(id, "open", "attempt")
    if row and (row.open == "" or row.attempt ~= attempt) then rcall("ZREM", K_LEASES, subject) end
  elseif fault == "expiry" then
    local row = try_row(subject, "state", "expiresAt")
    if row and (row.state == "settled" or row.expiresAt == "") then rcall("ZREM", K_EXPIRY, subject) end
  else
    mend_index(string.sub(fault, 7), subject)
  end
end
return 1
