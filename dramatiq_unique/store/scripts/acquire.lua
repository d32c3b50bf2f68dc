-- acquire: a message takes its queue lock, keeps the one it has, or takes the place of another.
--
-- KEYS  1 queue lock   2 superseded (hash: message_id -> the one that took its place)
-- ARGV  1 message_id   2 "<token> <limit> <hold_ms> <takeover> <memory_ms> <state>", in one argument since each one costs
--       the sender: token of this enqueue, with the same one it is answered the same; how long it is held from now;
--       takeover, 1 may replace a holder whose message waits; how long the superseded are remembered; state to be in,
--       '' keeps the state it has   3 place   4 info   5 args or ''   6 an orphan to drop, as drop_orphan takes it
-- gives 'taken', {'mine', how long it was held, in ms}, {'superseded' or 'contested', by}, {'held', holder...} or
--       {'replaced', old holder...}
--
-- Atomic because two who send at once must find one lock, and two who replace at once must leave one message.

local lock, id, now = KEYS[1], ARGV[1], clock()
local token, limit, hold, takeover, memory, state = string.match(ARGV[2], '^(%S+) (%d+) (%d+) (%d) (%d+) (%a?)$')
local fate, by = superseder(KEYS[2], id, now)
if fate then return {fate, by} end
drop_orphan(lock, ARGV[6])

local deadline, mine = now + tonumber(hold), alive(lock, id, now)
if mine then
  if owner(mine) ~= token then mine.token = string.format('=%s %s%s', token, mine.state, string.match(mine.token, '^%S+')) end
  if state ~= '' then mine.state = state end
  if not window(mine) then mine.deadline = math.max(mine.deadline, deadline) end
  keep(lock, id, now, mine, ARGV[3], ARGV[4], ARGV[5])
  if mine.token ~= '+' .. token then return {'mine', now - mine.since} end
  local old = {replaced(lock, id)}
  return old[1] and {'replaced', 0, 0, unpack(old)} or 'taken'
end

local answer, holders, size = 'taken', full(lock, tonumber(limit), now)
if holders then
  local old = takeover == '1' and first_waiting(holders)
  if not old then return reply('held', lock, longest_unseen(holders), now) end
  answer = replace(lock, id, old, now)
  redis.call('HSET', KEYS[2], old.id, string.format('%.0f %s', now, id))
  redis.call('PEXPIRE', KEYS[2], memory)
end
take(lock, size, id, now, deadline, state == '' and 'w' or state, '+' .. token, ARGV[3], ARGV[4], ARGV[5])
return answer
