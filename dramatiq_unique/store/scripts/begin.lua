-- begin: a delivery starts. It settles the queue lock of its message and takes its run lock, both or neither.
--
-- KEYS  1 queue lock   2 run lock   3 superseded
-- ARGV  1 message_id   2 "<token> <run> <limit> <lease_ms> <hold_ms> <queue>": token of this delivery; run, 1 takes the
--       run lock; hold_ms of a queue lock to take; queue lock: start lets it go, end and take keep or take it, mark says
--       that the message of a window runs, '' there is none   3 place   4 info   5 args   6 an orphan, or ''
-- gives {'begun', queue lock found: mine, free, other or none, held for so many ms}, {'superseded' or 'contested', by},
--       {'held', holder...} or {'running', left_ms}: an earlier delivery of it has a lease (its own: the answer was lost)
--
-- Atomic because the queue lock must go in the very step that takes the run lock: else a third copy could wait.

local id, place, info, args, now = ARGV[1], ARGV[3], ARGV[4], ARGV[5], clock()
local token, run, limit, lease, hold, queue = string.match(ARGV[2], '^(%S+) (%d) (%d+) (%d+) (%d+) (%a*)$')
local fate, by = superseder(KEYS[3], id, now)
if fate then return {fate, by} end
drop_orphan(KEYS[1], ARGV[6])

local found, mine, holders, size = 'none', nil, nil, nil
if run == '1' then
  local first = alive(KEYS[2], id, now)
  if first then return first.token == token and {'begun', 'mine', 0} or {'running', first.deadline - now} end
  holders, size = full(KEYS[2], tonumber(limit), now)
  if holders then return reply('held', KEYS[2], holders[1], now) end
end
if queue ~= '' then
  mine = alive(KEYS[1], id, now)
  local others = not mine and full(KEYS[1], tonumber(limit), now)
  found = mine and 'mine' or others and 'other' or 'free'
  if queue == 'start' then
    drop(KEYS[1], id)
  elseif mine then
    runs(KEYS[1], id, now, mine, queue == 'end' and lease + 0 or 0, '-' .. token, place, info, args)
  elseif queue ~= 'mark' then
    if others then return reply('held', KEYS[1], longest_unseen(others), now) end
    local state, least = unpack(queue == 'end' and {'r', lease} or {'f', 0})
    take(KEYS[1], nil, id, now, now + math.max(hold, least), state, '-' .. token, place, info, args)
  end
end
if run == '1' then take(KEYS[2], size, id, now, now + lease, 'r', token, string.match(place, ' .*$'), info, args) end
return {'begun', found, mine and now - mine.since or 0}
