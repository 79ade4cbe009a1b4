-- Looks for settled turns that may be removed: too old, or more than are kept. Changes nothing.
-- KEYS: 1 the lane's tag
-- ARGV: 1 place to go on from, 2 the instant up to which turns are too old, 3 the most settled turns, 4 most turns to look at
-- Answer: {next place ("" at the end), turns looked at, up to what instant of settling turns may go, turn, its batch, its
--         session, …}
-- Errors: none of its own
-- Twice: it reads only.
--- include turns
--- include pages
--- include faults
--- include aging
local settled = K_STATE .. "settled"
local cutoff = tonumber(ARGV[2])
local highest = cutoff
local over = rcall("ZCARD", settled) - tonumber(ARGV[3])
if over > 0 then highest = math.max(cutoff, tonumber(rcall("ZRANGE", settled, over - 1, over - 1, "WITHSCORES")[2])) end
local turns, next_place = page_of(settled, ARGV[1], highest, tonumber(ARGV[4]))
local found = {}
for _, id in ipairs(turns) do
  local row = may_go(id, highest, cutoff)
  if row then
    found[#found + 1] = id
    found[#found + 1] = row.batch or ""
    found[#found + 1] = row.session or ""
  end
end
return {next_place, #turns, string.format("%d", highest), unpack(found)}
