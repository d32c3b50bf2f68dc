-- finish: the owner lets go of its locks. Whoever is not the owner lets go of nothing, and twice is nothing.
--
-- KEYS  1 queue lock   2 run lock
-- ARGV  1 message_id   2 token of the delivery   3 queue lock: '' keeps it, delivery lets it go where it was left to this
--       delivery, or to the enqueue that this delivery comes from; message also where it was left to another delivery;
--       anybody whoever it was left to   4 tokens of that enqueue, with spaces between   5 '1' lets the run lock go
--       6 channel on which those who wait for the run lock are woken
-- gives {queue lock, run lock}: how long it was held, in ms, where it was let go, else -1
--
-- Atomic because the owner is compared before it is dropped: the message may have been sent again since, or run again.

local id, token, now, held = ARGV[1], ARGV[2], clock(), {-1, -1}
local raw = ARGV[3] ~= '' and redis.call('HGET', KEYS[1], 'o:' .. id)
local mine = raw and parse(raw)
local owners = ' ' .. token .. ' ' .. ARGV[4] .. ' '
local own = mine and string.find(owners, ' ' .. owner(mine) .. ' ', 1, true)
if mine and (own or ARGV[3] == 'anybody' or ARGV[3] == 'message' and string.find(mine.token, '^-')) then
  drop(KEYS[1], id)
  held[1] = now - mine.since
end
raw = ARGV[5] == '1' and redis.call('HGET', KEYS[2], 'o:' .. id)
local run = raw and parse(raw)
if run and run.token == token then
  drop(KEYS[2], id)
  redis.call('PUBLISH', ARGV[6], id)
  held[2] = now - run.since
end
return held
