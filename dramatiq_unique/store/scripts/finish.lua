-- finish: the owner lets go of its locks. Whoever is not the owner lets go of nothing, and twice is nothing.
--
-- KEYS  1 queue lock   2 run lock
-- ARGV  1 message_id   2 token of the delivery   3 queue lock: '' keeps it, delivery lets it go where it was left to this
--       delivery, or to the enqueue that this delivery comes from; message also where it was left to another delivery;
--       anybody whoever it was left to   4 token of that enqueue, or ''   5 '1' lets the run lock go   6 channel on
--       which those who wait for the run lock are woken
-- gives {queue lock, run lock}: how long it was held, in ms, where it was let go, else -1
--
-- Atomic because the owner is compared before it is dropped: the message may have been sent again since, or run again.

local id, token, now, held = ARGV[1], ARGV[2], clock(), {-1, -1}
local raw = ARGV[3] ~= '' and redis.call('HGET', KEYS[1], 'o:' .. id)
local mine = raw and parse(raw)
local left_to = mine and owner(mine)
local own = left_to == token or left_to == ARGV[4] or ARGV[3] == 'anybody'
if mine and (own or ARGV[3] == 'message' and string.find(mine.token, '^-')) then
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
