-- Decides what a delivery of a turn's job leads to, and opens the attempt.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 job, 3 lock token, 4 attemptsStarted as delivered, 5 worker, 6 lease in ms,
--       7 "1" when the agent announces its calls, 8 longest gap between renewals in ms
-- Answer: {"stray"}           there is no such turn, or its current job is another one
--         {"nolock"}          this delivery is not the job's current one
--         {"settled", generation}
--         {"wait", ms}        another attempt may be alive, or the turn's own delay still runs
--         {"park", session}   an earlier turn of the session is not settled
--         {"expired"}         it was not started in time: settle it without a run, begin again
--         {"gate", ms}        the lane's gate is closed: nobody starts before
--         {"lost", attempt, announces}  the open attempt's lease has ended: close it as lost, begin again
--         {"run", attempt, generation, firstAttempt, spent, crashes, seq, rev, submittedAt, startedAt,
--          cancelAt, cancelReason, request, {attempt, summary, …}, iteration, {messages, …}}
-- Errors: none of its own
-- Twice: the same delivery gets the same answer while its attempt is open and its lease holds; a lease that is
--        half over is taken anew.
--- include turns
--- include sessions
--- include generations
--- include leases
--- include gate
local id, job, token, started, worker = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local function read_turn()
  return read_row(id, "state", "job", "open", "attempt", "generation", "session", "batch", "firstAttempt", "spent", "crashes",
    "seq", "rev", "submittedAt", "startedAt", "dueAt", "expiresAt", "cancelAt", "cancelReason")
end
local row = read_turn()
if row.state == "" then return {"stray"} end
if rcall("GET", BULL .. job .. ":lock") ~= token or rcall("HGET", BULL .. job, "ats") ~= started then return {"nolock"} end
if row.job ~= job then return {"stray"} end

local now = now_ms()
local delivery = token .. ":" .. started
if row.state == "settled" then
  -- Only a job whose finish BullMQ was told and that comes again was retried by a person.
  if rcall("HGET", BULL .. job, "told") ~= row.generation then return {"settled", tonumber(row.generation)} end
  open_generation(id, job, now)
  row = read_turn()
end

local attempt = tonumber(row.attempt)
if row.open ~= "" then
  local left = lease_left(id, row.attempt, now, tonumber(ARGV[8]))
  -- Also this delivery's own attempt: somebody may have found it lost, and be about to close it.
  if not left then return {"lost", attempt, rcall("HGET", K_ROW .. id, "announces") or "0"} end
  if row.open ~= delivery then return {"wait", left} end
end
if row.session ~= "" and not is_head(row.session, id) then return {"park", row.session} end
if row.open == "" then
  if row.expiresAt ~= "" and tonumber(row.expiresAt) <= now then return {"expired"} end
  if row.dueAt ~= "" and tonumber(row.dueAt) > now then return {"wait", tonumber(row.dueAt) - now} end
  local shut = pass_gate(now)
  if shut then return {"gate", shut} end
end

local lease = tonumber(ARGV[6])
local iteration = 1
if row.session ~= "" then iteration = (tonumber(rcall("HGET", K_SESSION .. row.session, "iteration")) or 0) + 1 end
if row.open == "" then
  attempt = attempt + 1
  if row.startedAt == "" then row.startedAt = string.format("%d", now) end
  rcall("HSET", K_ATTEMPTS .. id, attempt, cjson.encode({attempt = attempt, worker = worker, startedAt = now, iteration = iteration}))
  rcall("ZADD", K_LEASES, now + lease, id .. "#" .. attempt)
  set_state(id, row.batch, row.state, "running", now, "attempt", attempt, "open", delivery, "worker", worker, "announces",
    ARGV[7], "startedAt", row.startedAt)
  if row.dueAt ~= "" or row.expiresAt ~= "" then end_expiry(id) end
elseif (tonumber(rcall("ZSCORE", K_LEASES, id .. "#" .. attempt)) or 0) < now + lease / 2 then
  -- One that asks again may have stood still for long: its lease is to hold when its agent starts.
  rcall("ZADD", K_LEASES, now + lease, id .. "#" .. attempt)
end
-- A first attempt has none before it.
local attempts = {}
if attempt > 1 then attempts = rcall("HGETALL", K_ATTEMPTS .. id) end
local messages = {}
if row.session ~= "" then messages = rcall("LRANGE", K_MESSAGES .. row.session, 0, -1) end
return {"run", attempt, row.generation, row.firstAttempt, row.spent, row.crashes, row.seq, row.rev,
  row.submittedAt, row.startedAt, row.cancelAt, row.cancelReason, rcall("GET", K_REQUEST .. id), attempts,
  iteration, messages}
