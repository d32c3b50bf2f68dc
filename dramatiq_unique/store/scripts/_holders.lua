-- The holders of a lock.
--
-- A lock is a hash that expires with its longest holder. Each holder has in it, by its message_id:
--   o:<id>  its record
--   p:<id>  where its message is: "<id at the broker> <queue>", only the queue in a run lock
--   q:<id>  where it was before, for as long as it may be there yet
--   i:<id>  who it is: "<host>:<pid> <actor>"
--   a:<id>  its arguments as JSON, under lock_info only
--   r:<id>  whose place it took, as ``replace`` gives it

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

-- The message of a holder starts: a window stays as long as it was, any other lock is kept for a lease at least.
local function runs(key, id, now, record, lease, token, place, info, args)
  record.state, record.token = lease > 0 and 'r' or 'f', token .. ' ' .. sent_as(record)
  record.deadline = math.max(record.deadline, now + lease)
  keep(key, id, now, record, place, info, args)
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
