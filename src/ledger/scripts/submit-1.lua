-- Stores the rows and requests of one chunk of turns.
-- KEYS: 1 the lane's tag
-- ARGV: 1 nonce of the call, then per turn 14: id, content hash, request, job, agent, session, batch, sample, epoch, preview, labels,
--       priority or "", delay in ms or "", expiry in ms or ""
-- Answer: per turn "stored", "duplicate" (same content, also of an earlier place in this call) or "conflict" (other content)
-- Errors: none of its own
-- Twice: the nonce on the row makes a resend answer as the first call did.
--- include turns
--- include sessions
local nonce = ARGV[1]
local now = now_ms()
local answers = {}
local seen = {}
for i = 2, #ARGV, 14 do
  local id, hash, request, job, agent, session, batch, sample, epoch, preview, labels, priority, delay, expires = unpack(ARGV, i, i + 13)
  local row = read_row(id, "hash", "nonce")
  if row.hash == "" then
    local state = "waiting"
    local due = delay == "" and 0 or now + tonumber(delay)
    if due > 0 then state = "delayed" end
    if session ~= "" and join_session(session, id) then state = "parked" end
    rcall("SET", K_REQUEST .. id, request)
    rcall("HSET", K_ROW .. id, "v", 1, "agent", agent, "hash", hash, "nonce", nonce, "job", job, "session", session,
      "batch", batch, "sample", sample, "epoch", epoch, "preview", preview, "labels", labels, "generation", 1,
      "attempt", 0, "firstAttempt", 1, "open", "", "spent", 0, "crashes", 0, "crashed", 0, "seq", 0, "rev", 0,
      "submittedAt", now)
    if priority ~= "" then rcall("HSET", K_ROW .. id, "priority", priority) end
    if due > 0 then rcall("HSET", K_ROW .. id, "dueAt", due, "nextAt", due) end
    if expires ~= "" then rcall("HSET", K_ROW .. id, "expiresInMs", expires) end
    if state ~= "parked" then set_expiry(id, expires, due, now) end
    if batch ~= "" then
      rcall("ZADD", K_BATCHES, "NX", now, batch)
      rcall("ZADD", K_BATCH_TURNS .. batch, rcall("HINCRBY", K_BATCH .. batch, "turns", 1), id)
    end
    set_state(id, batch, "", state, now)
    answers[#answers + 1] = "stored"
  elseif row.hash ~= hash then
    answers[#answers + 1] = "conflict"
  elseif row.nonce == nonce and not seen[id] then
    answers[#answers + 1] = "stored"
  else
    answers[#answers + 1] = "duplicate"
  end
  seen[id] = true
end
return answers
