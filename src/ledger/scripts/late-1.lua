-- Books what a closed attempt spent beyond what was booked for it.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 attempt, 3 the late usage as it shall stand, 4 the late usage that it was built on or "", 5 what it adds
-- Answer: 1 when it is booked; 0 when the attempt is still open or other late usage stands: read anew
-- Errors: none of its own
-- Twice: late usage that stands already is booked.
--- include turns
local id, attempt = ARGV[1], ARGV[2]
-- Whoever read it and writes it again may order its fields otherwise.
local function is_same(one, other)
  if one == "" or other == "" then return one == other end
  local a, b = cjson.decode(one), cjson.decode(other)
  for field, value in pairs(a) do if b[field] ~= value then return false end end
  for field in pairs(b) do if a[field] == nil then return false end end
  return true
end
if rcall("HEXISTS", K_ATTEMPTS .. id, attempt .. ":by") == 0 then return 0 end
local before = rcall("HGET", K_ATTEMPTS .. id, attempt .. ":late")
if before == ARGV[3] then return 1 end
if not is_same(before or "", ARGV[4]) then return 0 end
rcall("HSET", K_ATTEMPTS .. id, attempt .. ":late", ARGV[3])
local batch = read_row(id, "batch").batch
count_usage(batch, ARGV[5])
if before then
  -- One late usage an attempt, of whatever parts it is made.
  count(batch, "known:" .. cjson.decode(ARGV[5]).known, -1)
  count(batch, "known:" .. cjson.decode(before).known, -1)
  count(batch, "known:" .. cjson.decode(ARGV[3]).known, 1)
end
rcall("HINCRBY", K_ROW .. id, "rev", 1)
return 1
