-- Looks for batches whose sums disagree, and for those of which nothing but the counts is left. Changes nothing.
-- KEYS: 1 the lane's tag
-- ARGV: 1 place to go on from, 2 most batches to look at, 3 the instant since when nothing but counts has been left
-- Answer: {next place ("" at the end), "sums" or "old", batch, …}
-- Errors: none of its own
-- Twice: it reads only.
--- include turns
--- include pages
--- include batches
local batches, next_place = page_of(K_BATCHES, ARGV[1], "+inf", tonumber(ARGV[2]))
local found = {}
for _, batch in ipairs(batches) do
  if is_old(batch, tonumber(ARGV[3])) then
    found[#found + 1] = "old"
    found[#found + 1] = batch
  elseif not sums_agree(batch) then
    found[#found + 1] = "sums"
    found[#found + 1] = batch
  end
end
return {next_place, unpack(found)}
