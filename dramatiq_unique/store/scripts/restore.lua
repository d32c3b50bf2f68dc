-- restore: a message was not stored. What its enqueue did to the queue lock is undone: the lock goes back to the message
-- whose place it took, or to nobody; one that its message had before stays. Whatever was done since is left alone.
--
-- KEYS  1 queue lock   2 superseded
-- ARGV  1 message_id   2 token of the enqueue   3 the id that it replaced, where that is known, or ''
-- gives 1 where the replaced message counts again, or there is none that should; 0 where it had come up already, and
--       was skipped
--
-- Atomic because in between a third message would find the lock free.

local lock, id, token, old, now = KEYS[1], ARGV[1], ARGV[2], ARGV[3], clock()
local raw = redis.call('HGET', lock, 'o:' .. id)
local mine = raw and parse(raw)
if mine and mine.token ~= '+' .. token then
  local state, before = without(token, mine)
  if before ~= mine.token then
    mine.state, mine.token = state, before
    put(lock, id, now, mine)
  end
  return 1
elseif mine then
  local answer, replaced_id = replaced(lock, id)
  drop(lock, id)
  if not answer then return 1 end
  if redis.call('HDEL', KEYS[2], replaced_id) == 0 then return 0 end
  local o, p, q, a, i = string.match(answer, '^[^\n]*\n([^\n]*)\n([^\n]*)\n([^\n]*)\n([^\n]*)\n(.*)\n[^\n]*$')
  local record = parse(o)
  if record.deadline > now then
    put(lock, replaced_id, now, record, described(replaced_id, q ~= '' and q, p, i, a))
  end
  return 1
end
local by = redis.call('HGET', KEYS[2], id) -- A newer one took the place meanwhile, and so took that of the old one too.
redis.call('HDEL', KEYS[2], id)
if old == '' then return 1 end
if by and redis.call('HEXISTS', KEYS[2], old) == 1 then redis.call('HSET', KEYS[2], old, by) end
return (by or redis.call('HDEL', KEYS[2], old) == 1) and 1 or 0
