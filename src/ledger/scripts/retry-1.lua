-- Opens a new generation of a settled turn.
-- KEYS: 1 the lane's tag
-- ARGV: 1 turn, 2 the generation that is to be retried, 3 the new generation's job, 4 nonce
-- Answer: {"opened", generation}; {"open", generation} when a later one is open or was retried already; {"missing"}
-- Errors: none of its own
-- Twice: the nonce of the retry is kept on the row.
--- include turns
--- include sessions
--- include generations
local id = ARGV[1]
local row = read_row(id, "state", "generation", "retriedBy")
if row.state == "" then return {"missing"} end
if row.retriedBy == ARGV[4] then return {"opened", tonumber(row.generation)} end
if row.state ~= "settled" or row.generation ~= ARGV[2] then return {"open", tonumber(row.generation)} end
local generation = open_generation(id, ARGV[3], now_ms())
rcall("HSET", K_ROW .. id, "retriedBy", ARGV[4])
return {"opened", generation}
