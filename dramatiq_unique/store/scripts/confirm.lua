-- confirm: a message that took the place of another is stored now, so the other is skipped when it comes up.
--
-- KEYS  1 superseded
-- ARGV  1 the message that was replaced   2 the one that took its place
-- gives 1 where the first is still known as replaced by the second, else 0
--
-- Atomic because a third message may have taken the place meanwhile, or the first may count again.

local raw = redis.call('HGET', KEYS[1], ARGV[1])
if not raw or string.match(raw, '^%d+ (.*)$') ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], '0 ' .. ARGV[2])
return 1
