-- finish: the owner lets go of its locks. Whoever is not the owner lets go of nothing, and twice is nothing.
--
-- KEYS  1 queue lock   2 run lock
-- ARGV  1 message_id   2 token of the delivery   3 '1' lets the queue lock go   4 '1' lets the run lock go
--       5 channel on which those who wait for the run lock are woken
-- gives {queue locks let go, run locks let go}
--
-- Atomic because the owner is compared before it is dropped.

local id, gone = ARGV[1], {0, 0}
if ARGV[3] == '1' and drop(KEYS[1], id) > 0 then gone[1] = 1 end
local run = ARGV[4] == '1' and redis.call('HGET', KEYS[2], 'o:' .. id)
if run and parse(run).token == ARGV[2] then
  drop(KEYS[2], id)
  gone[2] = 1
  redis.call('PUBLISH', ARGV[5], id)
end
return gone
