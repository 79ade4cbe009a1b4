-- Settles a turn: Result, outcome, counts, the session's next turn. The row (state, batch, session,
-- generation) is as it was before; s: {result, outcome, status, scored, passed, usage, channel};
-- further fields for the row may follow.
local function settle_turn(id, row, now, s, ...)
  rcall("SET", K_RESULT .. id .. ":" .. row.generation, s.result)
  set_state(id, row.batch, row.state, "settled", now, "open", "", "outcome", s.outcome, "status", s.status,
    "scored", s.scored, "passed", s.passed, "usage", s.usage, "settledAt", now, ...)
  if row.batch ~= "" then
    count(row.batch, "o:" .. s.outcome, 1)
    if s.scored == "1" then count(row.batch, "scored", 1) end
    if s.passed == "1" then count(row.batch, "passed", 1) end
    rcall("ZADD", K_BATCH_SETTLED .. row.batch, rcall("HINCRBY", K_BATCH .. row.batch, "settles", 1), id)
  end
  if row.session ~= "" then
    rcall("ZREM", K_SESSION_QUEUE .. row.session, id)
    wake_head(row.session, now)
  end
  rcall("PUBLISH", s.channel, id)
end
