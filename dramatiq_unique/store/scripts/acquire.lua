-- acquire: a message takes its queue lock, keeps the one it has, or takes the place of another.
--
-- KEYS  1 queue lock   2 superseded (hash: message_id -> the one that took its place)
-- ARGV  1 message_id   2 token of this enqueue: with the same one it is answered the same   3 limit   4 hold_ms, how long
--       from now   5 state to be in ('' keeps the state it has)   6 place   7 info   8 args or ''   9 takeover: '1' may
--       replace a holder whose message waits   10 memory_ms, how long the superseded are remembered   11 id and 12 record
--       of an orphan to drop, if it still stands so, or ''
-- gives {'taken'}, {'mine', how long it was held, in ms}, {'superseded' or 'contested', by}, {'held', holder...} or
--       {'replaced', old holder...}
--
-- Atomic because two who send at once must find one lock, and two who replace at once must leave one message.

local lock, id, token, now, state = KEYS[1], ARGV[1], ARGV[2], clock(), ARGV[5]
local fate, by = superseder(KEYS[2], id, now)
if fate then return {fate, by} end
if ARGV[11] ~= '' and redis.call('HGET', lock, 'o:' .. ARGV[11]) == ARGV[12] then drop(lock, ARGV[11]) end

local deadline, mine = now + tonumber(ARGV[4]), alive(lock, id, now)
if mine then
  if owner(mine) ~= token then mine.token = string.format('=%s %s%s', token, mine.state, string.match(mine.token, '^%S+')) end
  if state ~= '' then mine.state = state end
  if not window(mine) then mine.deadline = math.max(mine.deadline, deadline) end
  put(lock, id, now, mine)
  describe(lock, id, ARGV[6], ARGV[7], ARGV[8])
  if mine.token ~= '+' .. token then return {'mine', now - mine.since} end
  local old = {replaced(lock, id)}
  return old[1] and {'replaced', 0, 0, unpack(old)} or {'taken'}
end

local answer, holders = {'taken'}, full(lock, tonumber(ARGV[3]), now)
if holders then
  local old = ARGV[9] == '1' and first_waiting(holders)
  if not old then return reply('held', lock, longest_unseen(holders), now) end
  answer = replace(lock, id, old, now)
  redis.call('HSET', KEYS[2], old.id, string.format('%.0f %s', now, id))
  redis.call('PEXPIRE', KEYS[2], ARGV[10])
end
take(lock, id, now, deadline, state == '' and 'w' or state, '+' .. token, ARGV[6], ARGV[7], ARGV[8])
return answer
