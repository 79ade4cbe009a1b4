-- Corrects a batch's counts, unless anything of it has changed since they were counted anew.
-- KEYS: 1 the lane's tag
-- ARGV: 1 batch, then per field of its hash 3: its name, the value that it had ("" for none), the value that is due
-- Answer: 1 when the fields are as due; 0 when one has changed: count again
-- Errors: none of its own
-- Twice: what is as due stays.
--- include turns
local key = K_BATCH .. ARGV[1]
local corrected = true
for i = 2, #ARGV, 3 do
  if (rcall("HGET", key, ARGV[i]) or "0") ~= ARGV[i + 2] then corrected = false end
end
if corrected then return 1 end
for i = 2, #ARGV, 3 do
  if (rcall("HGET", key, ARGV[i]) or "") ~= ARGV[i + 1] then return 0 end
end
for i = 2, #ARGV, 3 do rcall("HSET", key, ARGV[i], ARGV[i + 2]) end
return 1
