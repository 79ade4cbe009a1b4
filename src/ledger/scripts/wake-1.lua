-- Moves the heads of sessions whose jobs stand in delayed to wait.
-- KEYS: 1 the lane's tag
-- ARGV: the sessions
-- Answer: 1
-- Errors: none of its own
-- Twice: a head that was woken is not in delayed any more.
--- include turns
--- include sessions
local now = now_ms()
for _, session in ipairs(ARGV) do wake_head(session, now) end
return 1
