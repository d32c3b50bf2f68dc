-- acquire: a message takes its queue lock, keeps the one it has, or takes the place of another.
--
-- KEYS  1 queue lock   2 superseded (hash: message_id -> the one that took its place)
-- ARGV  1 message_id   2 packed, as ``read`` takes it; the order is "<token> <limit> <taken_ms> <taken_state> <kept_ms>
--       <kept_state> <takeover> <delivery> <memory_ms>": token of this enqueue, with the same one it is answered the same;
--       for how long from now and in which state where it is taken, and where it is kept ('' leaves that); takeover, 1 may
--       replace one that waits; delivery that enqueues its own message, or ''; how long the superseded are remembered
--       3 an orphan to drop, as drop_orphan takes it
-- gives nil where it has the lock now and had not before, 'mine <how long it was held, in ms>', 'superseded' or
--       'contested' as ``superseder`` says it, or 'held' or 'replaced' as ``reply`` says it
--
-- Atomic because two who send at once must find one lock, and two who replace at once must leave one message.

local lock, id, now = KEYS[1], ARGV[1], clock()
local token, limit, taken_ms, taken_state, kept_ms, kept_state, takeover, delivery, memory, place, args, info =
  read(ARGV[2], '(%S+) (%d+) (%d+) (%a) (%d+) (%a?) (%d) (%S*) (%d+)')
local fate = superseder(KEYS[2], id, now)
if fate then return fate end
drop_orphan(lock, ARGV[3])

local mine = alive(lock, id, now)
if mine then
  if string.find(mine.token, '^-') and sent_as(mine) == token then return 'mine ' .. now - mine.since end -- It runs now.
  local runner = running(mine)
  if owner(mine) ~= token then mine.token = kept_by(token, mine) end
  if kept_state ~= '' and (not runner or runner == delivery) then mine.state = kept_state end
  if not window(mine) then mine.deadline = math.max(mine.deadline, now + kept_ms) end
  keep(lock, id, now, mine, place, info, args)
  if mine.token ~= '+' .. token then return 'mine ' .. now - mine.since end
  return replaced(lock, id) or false
end

local answer, holders, size = false, full(lock, tonumber(limit), now)
if holders then
  local old = takeover == '1' and first_waiting(holders)
  if not old then return reply('held', lock, longest_unseen(holders), now) end
  answer = replace(lock, KEYS[2], id, old, now, memory)
end
take(lock, size, id, now, now + taken_ms, taken_state, '+' .. token, place, info, args)
return answer
