-- The holders of a lock: what every script here begins with.
--
-- A lock is a hash that expires with its longest holder. Each holder has in it, by its message_id:
--   o:<id>  "<since> <touched> <deadline> <state> <token>", the second and third counted from the first, for fewer bytes
--   p:<id>  where its message is: "<id at the broker> <queue>", only the queue in a run lock
--   q:<id>  where it was before, for as long as it may be there yet
--   i:<id>  who it is: "<host>:<pid> <actor>"
--   a:<id>  its arguments as JSON, under lock_info only
--   r:<id>  whose place it took, as ``replace`` gives it
-- state: w waits, n waits and is not known to be stored yet, r runs; v a window whose message waits, f a window whose
-- place nobody may take. All times are milliseconds by the clock of the server.
-- token: who may let go. In a run lock the delivery. In a queue lock, from the start on, "-<delivery> <the enqueue that it
-- comes from>"; before it "+<enqueue>" where that enqueue took the lock, or "=<enqueue> <state and token before>" where
-- its message had it.

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000)
end

local function parse(raw)
  local since, touched, deadline, state, token = string.match(raw, '^(%d+) (%d+) (%d+) (%a) (.*)$')
  if not since then return {} end -- Somebody else's.
  return {since = tonumber(since), touched = since + touched, deadline = since + deadline, state = state, token = token}
end

-- The record of a holder whose deadline has not passed, else nil.
local function alive(key, id, now)
  local raw = redis.call('HGET', key, 'o:' .. id)
  local record = raw and parse(raw)
  if record and record.deadline > now then return record end
end

local function written(record, now)
  return string.format('%.0f %.0f %.0f %s %s', record.since, math.max(now - record.since, 0),
    math.max(record.deadline - record.since, 0), record.state, record.token)
end

-- The fields that describe a holder, and where it was before.
local function described(id, before, place, info, args)
  local fields = {'p:' .. id, place, 'i:' .. id, info}
  local function add(field, value) fields[#fields + 1], fields[#fields + 2] = field, value end
  if before and before ~= place then add('q:' .. id, before) end
  if args ~= '' then add('a:' .. id, args) end
  return fields
end

-- A record, and what else is to be written. The expiry comes first: it needs no memory, and after a first write a full
-- Redis lets a script write on. So what is held can be kept (``take`` begins with a write that needs memory, and a new
-- lock is refused).
local function put(key, id, now, record, fields)
  local left = math.max(record.deadline - now, redis.call('PTTL', key))
  local lasts = redis.call('PEXPIRE', key, left)
  redis.call('HSET', key, 'o:' .. id, written(record, now), unpack(fields or {}))
  if lasts == 0 then redis.call('PEXPIRE', key, left) end
end

-- A holder that is in its lock is kept there, and described as it is now.
local function keep(key, id, now, record, place, info, args)
  put(key, id, now, record, described(id, redis.call('HGET', key, 'p:' .. id), place, info, args))
end

-- A new holder. Where the lock is known to have had nothing in it (size 0) there is nothing to keep: two calls will do.
local function take(key, size, id, now, deadline, state, token, place, info, args)
  local record = {since = now, deadline = deadline, state = state, token = token}
  if size == 0 then
    redis.call('HSET', key, 'o:' .. id, written(record, now), unpack(described(id, nil, place, info, args)))
    redis.call('PEXPIRE', key, deadline - now)
  else
    redis.call('HSET', key, unpack(described(id, redis.call('HGET', key, 'p:' .. id), place, info, args)))
    put(key, id, now, record)
  end
end

-- What comes in one argument, for each one costs the caller: the order, then where the message is, its arguments, and
-- who it is, a line each. gives what the pattern of the order captures, and those three.
local function read(packed, order)
  return string.match(packed, '^' .. order .. '\n([^\n]*)\n([^\n]*)\n(.*)$')
end

-- The token of a queue lock that an enqueue keeps. What stood there stays behind it, since the enqueue may be undone, and
-- those before it too; but not without end, for a message may be tried again for days.
local function kept_by(token, record)
  local before = #record.token < 80 and record.token or string.match(record.token, '^%S+')
  return string.format('=%s %s%s', token, record.state, before)
end

-- State and token of such a lock without what an enqueue did: the last that kept it, one before that, or the one that
-- took it, in whose place the next one then has.
local function without(token, record)
  local state, before = string.match(record.token, '^=' .. token .. ' (%a)(.*)$')
  if state then return state, before end
  local kept = string.gsub(record.token, '%a=' .. token .. ' (%a)', '%1')
  return record.state, (string.gsub(kept, '=(%S+) %a%+' .. token .. '$', '+%1'))
end

-- The enqueue that a queue lock was left to last, whether or not its message has started since.
local function sent_as(record)
  return string.match(record.token, '^[+=](%S+)') or string.match(record.token, '^%-%S+ (%S+)') or ''
end

-- The message of a holder starts: a window stays as long as it was, any other lock is kept for a lease at least.
local function runs(key, id, now, record, lease, token, place, info, args)
  record.state, record.token = lease > 0 and 'r' or 'f', token .. ' ' .. sent_as(record)
  record.deadline = math.max(record.deadline, now + lease)
  keep(key, id, now, record, place, info, args)
end

-- The delivery, or the enqueue, that a queue lock is left to.
local function owner(record)
  return string.match(record.token, '^.(%S*)')
end

-- The delivery that runs the message of a queue lock, though it may have been enqueued again since; false or nil where
-- it waits.
local function running(record)
  return record.state == 'r' and string.match(record.token, '%-(%S+)')
end

-- Whether a delivery may keep the lock of its message: no other one has started since.
local function speaks(record, token)
  return string.match(record.token, '^%S+') == token or string.find(record.token, '^[+=]') ~= nil
end

-- Whether a holder's place is a window, which nothing stretches.
local function window(record)
  return record.state == 'v' or record.state == 'f'
end

local function drop(key, id)
  redis.call('HDEL', key, 'o:' .. id, 'p:' .. id, 'q:' .. id, 'i:' .. id, 'a:' .. id, 'r:' .. id)
end

-- An orphan, "<id>\n<record>" or '', goes if it still stands so.
local function drop_orphan(key, orphan)
  local id, record = string.match(orphan, '^(.*)\n(.*)$')
  if id and redis.call('HGET', key, 'o:' .. id) == record then drop(key, id) end
end

-- The live holders, the oldest first, where they fill the lock; else nil. Those past their deadline are dropped.
-- Second, how many fields there were: 0 where there was no lock.
local function full(key, limit, now)
  local size = redis.call('HLEN', key)
  if size < limit * 3 then return nil, size end -- three fields or more for each holder
  local live = {}
  local fields = redis.call('HGETALL', key)
  for i = 1, #fields, 2 do
    local id = string.match(fields[i], '^o:(.*)$')
    if id then
      local record = parse(fields[i + 1])
      record.id = id
      if record.deadline > now then live[#live + 1] = record else drop(key, id) end
    end
  end
  table.sort(live, function(a, b) return a.since < b.since or (a.since == b.since and a.id < b.id) end)
  return #live >= limit and live or nil, size
end

-- The oldest holder whose message waits, or nil.
local function first_waiting(holders)
  for _, holder in ipairs(holders) do
    if string.find('wnv', holder.state, 1, true) then return holder end
  end
end

-- The holder in the way that is named: the one that was not seen for longest, so that in turn each one is asked after.
local function longest_unseen(holders)
  local found = holders[1]
  for _, holder in ipairs(holders) do
    if holder.touched < found.touched then found = holder end
  end
  return found
end

-- A holder as a reply: "<status> <how long it still has the lock> <how long it was not seen>", its fields (that of who it
-- is the last one) and its id, a line each.
local function reply(status, key, holder, now)
  local id = holder.id
  local found = redis.call('HMGET', key, 'o:' .. id, 'p:' .. id, 'q:' .. id, 'a:' .. id, 'i:' .. id)
  for field = 1, 5 do found[field] = found[field] or '' end
  return string.format('%s %.0f %.0f\n%s\n%s', status, holder.deadline - now, now - holder.touched, table.concat(found, '\n'), id)
end

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
