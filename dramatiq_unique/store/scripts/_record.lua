-- The record of a holder: how long it has its lock, and who may let it go.
--
--   o:<id>  "<since> <touched> <deadline> <state> <token>", the second and third counted from the first, for fewer bytes
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

local function written(record, now)
  return string.format('%.0f %.0f %.0f %s %s', record.since, math.max(now - record.since, 0),
    math.max(record.deadline - record.since, 0), record.state, record.token)
end

-- The record of a holder whose deadline has not passed, else nil.
local function alive(key, id, now)
  local raw = redis.call('HGET', key, 'o:' .. id)
  local record = raw and parse(raw)
  if record and record.deadline > now then return record end
end

-- The enqueue that a queue lock was left to last, whether or not its message has started since.
local function sent_as(record)
  return string.match(record.token, '^[+=](%S+)') or string.match(record.token, '^%-%S+ (%S+)') or ''
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
