-- begin: a delivery starts. It settles the queue lock of its message and takes its run lock, both or neither.
--
-- KEYS  1 queue lock   2 run lock   3 superseded
-- ARGV  1 message_id   2 packed, as ``read`` takes it; the order is "<token> <run> <limit> <lease_ms> <hold_ms> <queue>":
--       token of this delivery; run, 1 takes the run lock; hold_ms of a queue lock to take; queue lock: start lets it go,
--       end and take keep or take it, mark says that the message of a window runs, '' there is none   3 an orphan, or ''
-- gives 'begun <queue lock found: mine, free, other or none> <held for so many ms>', 'superseded' or 'contested' as
--       ``superseder``, 'held' as ``reply`` says it, or 'running <left_ms>': an earlier delivery of it has a lease
--
-- Atomic because the queue lock must go in the very step that takes the run lock: else a third copy could wait.

local id, now = ARGV[1], clock()
local token, run, limit, lease, hold, queue, place, args, info = read(ARGV[2], '(%S+) (%d) (%d+) (%d+) (%d+) (%a*)')
local fate = superseder(KEYS[3], id, now)
if fate then return fate end
drop_orphan(KEYS[1], ARGV[3])
local found, mine, holders, size = 'none', nil, nil, nil
if run == '1' then
  local first = alive(KEYS[2], id, now)
  if first and first.token == token then return 'begun mine 0' end -- The answer was lost.
  if first then return 'running ' .. first.deadline - now end
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
return string.format('begun %s %.0f', found, mine and now - mine.since or 0)
