-- Appends events to the stream of an open attempt; makes no key when the attempt is not open.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, then per event 2: seq, JSON
-- Answer: 1, or 0 when the attempt is not the current one
-- Errors: none of its own
-- Twice: an event whose seq is in the stream is passed over.
--- include turns
local row = read_row(ARGV[1], "attempt", "open")
if row.attempt ~= ARGV[2] or row.open == "" then return 0 end
local stream = K_EVENTS .. ARGV[1] .. ":" .. ARGV[2]
local last = rcall("XREVRANGE", stream, "+", "-", "COUNT", 1)[1]
local flushed = last and tonumber(string.match(last[1], "^%d+")) or 0
for i = 3, #ARGV, 2 do
  if tonumber(ARGV[i]) > flushed then rcall("XADD", stream, ARGV[i] .. "-0", "e", ARGV[i + 1]) end
end
return 1
