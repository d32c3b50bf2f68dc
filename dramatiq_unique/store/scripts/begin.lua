-- begin: a delivery starts. It settles the queue lock of its message and takes its run lock, both or neither.
--
-- KEYS  1 queue lock   2 run lock   3 superseded
-- ARGV  1 message_id   2 token of this delivery   3 queue lock: start lets it go, end and take keep or take it, mark
--       says that the message of a window runs, '' there is none   4 run: '1' takes the run lock   5 limit   6 lease_ms
--       7 hold_ms of a queue lock to take   8 place   9 info   10 args   11 id and 12 record of an orphan, or ''
-- gives {'begun', queue lock found: mine, free, other or none, held for so many ms}, {'superseded' or 'contested', by},
--       {'held', holder...} or {'running', left_ms}: an earlier delivery of it has a lease (its own: the answer was lost)
--
-- Atomic because the queue lock must go in the very step that takes the run lock: else a third copy could wait.

local id, limit, lease, now = ARGV[1], tonumber(ARGV[5]), tonumber(ARGV[6]), clock()
local fate, by = superseder(KEYS[3], id, now)
if fate then return {fate, by} end
if ARGV[11] ~= '' and redis.call('HGET', KEYS[1], 'o:' .. ARGV[11]) == ARGV[12] then drop(KEYS[1], ARGV[11]) end

if ARGV[4] == '1' then
  local first = alive(KEYS[2], id, now)
  if first then return first.token == ARGV[2] and {'begun', 'mine', 0} or {'running', first.deadline - now} end
  local holders = full(KEYS[2], limit, now)
  if holders then return reply('held', KEYS[2], holders[1], now) end
end

local found, mine = 'none', nil
if ARGV[3] ~= '' then
  mine = alive(KEYS[1], id, now)
  local others = not mine and full(KEYS[1], limit, now)
  found = mine and 'mine' or others and 'other' or 'free'
  if ARGV[3] == 'start' then
    drop(KEYS[1], id)
  elseif mine then
    runs(KEYS[1], id, now, mine, ARGV[3] == 'end' and lease or 0, '-' .. ARGV[2], ARGV[8], ARGV[9], ARGV[10])
  elseif ARGV[3] ~= 'mark' then
    if others then return reply('held', KEYS[1], longest_unseen(others), now) end
    local state, least = unpack(ARGV[3] == 'end' and {'r', lease} or {'f', 0})
    take(KEYS[1], id, now, now + math.max(ARGV[7], least), state, '-' .. ARGV[2], ARGV[8], ARGV[9], ARGV[10])
  end
end
if ARGV[4] == '1' then take(KEYS[2], id, now, now + lease, 'r', ARGV[2], string.match(ARGV[8], ' .*$'), ARGV[9], ARGV[10]) end
return {'begun', found, mine and now - mine.since or 0}
