-- acquire: a message takes its queue lock, keeps the one it has, or takes the place of another.
--
-- KEYS  1 queue lock   2 superseded (hash: message_id -> the one that took its place)
-- ARGV  1 message_id   2 limit   3 hold_ms, how long from now   4 state to be in ('' keeps the state it has)
--       5 place   6 info   7 args or ''   8 takeover: '1' may replace a holder whose message waits   9 memory_ms, how
--       long the superseded are remembered   10 id and 11 record of an orphan to drop, if it still stands so, or ''
-- gives {'taken'}, {'mine', how long it was held, in ms}, {'superseded' or 'contested', by}, {'held', holder...} or {'replaced', old holder...}
--
-- Atomic because two who send at once must find one lock, and two who replace at once must leave one message.

local lock, id, limit, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), clock()
local fate, by = superseder(KEYS[2], id, now)
if fate then return {fate, by} end
if ARGV[10] ~= '' and redis.call('HGET', lock, 'o:' .. ARGV[10]) == ARGV[11] then drop(lock, ARGV[10]) end

local deadline, state = now + tonumber(ARGV[3]), ARGV[4]
local mine = alive(lock, id, now)
if mine then
  if state ~= '' then mine.state, mine.token = state, '-' end
  if not window(mine) then mine.deadline = math.max(mine.deadline, deadline) end
  put(lock, id, now, mine)
  describe(lock, id, ARGV[5], ARGV[6], ARGV[7])
  return {'mine', now - mine.since}
end

local answer = {'taken'}
local holders = full(lock, limit, now)
if holders then
  local old = ARGV[8] == '1' and first_waiting(holders)
  if not old then return reply('held', lock, longest_unseen(holders), now) end
  answer = reply('replaced', lock, old, now)
  drop(lock, old.id)
  redis.call('HSET', KEYS[2], old.id, string.format('%.0f %s', now, id))
  redis.call('PEXPIRE', KEYS[2], ARGV[9])
end
take(lock, id, now, deadline, state == '' and 'w' or state, '-', ARGV[5], ARGV[6], ARGV[7])
return answer
