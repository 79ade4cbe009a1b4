-- Books what a closed attempt spent beyond what was booked for it.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 the late usage as it shall stand, 4 rev that it was built from, 5 what it adds
-- Answer: 1 when it is booked; 0 when the attempt is still open or what it was built from is out of date: read anew
-- Errors: none of its own
-- Twice: late usage that stands already is booked.
--- include turns
local id, attempt = ARGV[1], ARGV[2]
if rcall("HEXISTS", K_ATTEMPTS .. id, attempt .. ":by") == 0 then return 0 end
local before = rcall("HGET", K_ATTEMPTS .. id, attempt .. ":late")
if before == ARGV[3] then return 1 end
local row = read_row(id, "batch", "rev")
if row.rev ~= ARGV[4] then return 0 end
rcall("HSET", K_ATTEMPTS .. id, attempt .. ":late", ARGV[3])
count_usage(row.batch, ARGV[5])
local readable, was = pcall(cjson.decode, before or "")
if readable and type(was) == "table" and was.known then
  -- One late usage an attempt, of whatever parts it is made.
  count(row.batch, "known:" .. cjson.decode(ARGV[5]).known, -1)
  count(row.batch, "known:" .. was.known, -1)
  count(row.batch, "known:" .. cjson.decode(ARGV[3]).known, 1)
end
rcall("HINCRBY", K_ROW .. id, "rev", 1)
return 1
