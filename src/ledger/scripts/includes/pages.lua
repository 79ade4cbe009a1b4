-- Walks of sorted sets in pages. A place is "SCORE/MEMBERS", the last score and how many of its members were
-- read; "" is the start. Of members of that score that have left since, as many others wait for the next walk.

-- Answers at most `limit` members after a place, and the next place: "" when the end was reached.
local function page_of(key, place, highest, limit)
  local score, skip = string.match(place, "^(.+)/(%d+)$")
  skip = tonumber(skip) or 0
  local found = rcall("ZRANGEBYSCORE", key, score or "-inf", highest, "WITHSCORES", "LIMIT", skip, limit)
  local members = {}
  local last, equal = score, skip
  for i = 1, #found, 2 do
    members[#members + 1] = found[i]
    if found[i + 1] == last then equal = equal + 1 else last, equal = found[i + 1], 1 end
  end
  if #members < limit then return members, "" end
  return members, last .. "/" .. equal
end
