-- The messages whose place another took: a hash, message_id -> who took it.

-- A message takes the place of a holder, which is kept until the lock goes: its enqueue may be asked again where the
-- answer was lost, or give the place back. gives the reply.
local function replace(key, superseded, id, old, now, memory)
  local answer = reply('replaced', key, old, now)
  drop(key, old.id)
  redis.call('HSET', key, 'r:' .. id, answer)
  redis.call('HSET', superseded, old.id, string.format('%.0f %s', now, id))
  redis.call('PEXPIRE', superseded, memory)
  return answer
end

-- What ``replace`` gave for a message, and the id of the holder whose place it took; nothing where it took nobody's.
local function replaced(key, id)
  local answer = redis.call('HGET', key, 'r:' .. id)
  if answer then return answer, string.match(answer, '\n([^\n]*)$') end
end

-- Who took the place of a message, on a line after 'superseded' where that one is stored, 'contested' where it is not
-- known to be: "<0, or since when in ms> <message_id>". One that was not stored within a minute never will be.
local function superseder(key, id, now)
  local raw = redis.call('HGET', key, id)
  if not raw then return end
  local since, by = string.match(raw, '^(%d+) (.*)$')
  if since == '0' then return 'superseded\n' .. by end
  if now - tonumber(since) < 60000 then return 'contested\n' .. by end
  redis.call('HDEL', key, id)
end
