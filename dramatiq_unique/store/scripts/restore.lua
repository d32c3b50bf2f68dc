-- restore: a message was not stored. Its lock goes back to the message whose place it took, or to nobody.
--
-- KEYS  1 queue lock   2 superseded
-- ARGV  1 message_id   2 the id it replaced or ''   3-7 the fields of that holder   8 within_ms: a lock that was taken
--       longer ago is kept, and so is one of a message that runs; '' where it is known to have been taken for nothing
-- gives 1 where the replaced message counts again, or there is none that should; 0 where it had come up already, and
--       was skipped
--
-- Atomic because in between a third message would find the lock free.

local id, old, now = ARGV[1], ARGV[2], clock()
if ARGV[8] ~= '' then
  local mine = alive(KEYS[1], id, now)
  if not mine or mine.state == 'r' or now - mine.since > tonumber(ARGV[8]) then return 1 end
end
local had = drop(KEYS[1], id)
local by = redis.call('HGET', KEYS[2], id)
redis.call('HDEL', KEYS[2], id)
if old == '' then return 1 end
if by then -- A newer one took the place meanwhile, and so took that of the old one too.
  if redis.call('HEXISTS', KEYS[2], old) == 1 then redis.call('HSET', KEYS[2], old, by) end
  return 1
end
if redis.call('HDEL', KEYS[2], old) == 0 then return 0 end
local record = parse(ARGV[3])
if had > 0 and record.deadline > now then
  describe(KEYS[1], old, ARGV[4], ARGV[6], ARGV[7])
  if ARGV[5] ~= '' then redis.call('HSET', KEYS[1], 'q:' .. old, ARGV[5]) end
  put(KEYS[1], old, now, record)
end
return 1
