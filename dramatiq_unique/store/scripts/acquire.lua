-- acquire: a message takes its queue lock, keeps the one it has, or takes the place of a message that waits.
--
-- KEYS  1 queue lock   2 superseded (hash: message_id -> the one that took its place)
-- ARGV  1 message_id   2 limit   3 hold_ms, how long from now   4 state to be in ('' keeps the state it has)
--       5 place   6 info   7 args or ''   8 takeover: '1' may replace a waiting holder   9 memory_ms, how long the
--       superseded are remembered
-- gives {'taken'}, {'mine'}, {'superseded', by}, {'held', left_ms, holder...} or {'replaced', left_ms, old...}
--
-- Atomic because two who send at once must find one lock, and two who replace at once must leave one message.

local id, limit, now = ARGV[1], tonumber(ARGV[2]), clock()
local by = redis.call('HGET', KEYS[2], id)
if by then return {'superseded', by} end

local deadline, state = now + tonumber(ARGV[3]), ARGV[4]
local mine = alive(KEYS[1], id, now)
if mine then
  if state ~= '' then mine.state = state end
  mine.deadline = math.max(mine.deadline, deadline)
  put(KEYS[1], id, now, mine)
  describe(KEYS[1], id, ARGV[5], ARGV[6], ARGV[7])
  return {'mine'}
end

local answer = {'taken'}
local holders = full(KEYS[1], limit, now)
if holders then
  local waiting
  for _, holder in ipairs(holders) do
    if holder.state == 'w' then waiting = waiting or holder end
  end
  if ARGV[8] ~= '1' or not waiting then return reply('held', KEYS[1], holders[1], now) end
  answer = reply('replaced', KEYS[1], waiting, now)
  drop(KEYS[1], waiting.id)
  redis.call('HSET', KEYS[2], waiting.id, id)
  redis.call('PEXPIRE', KEYS[2], ARGV[9])
end
take(KEYS[1], id, now, deadline, state == '' and 'w' or state, '-', ARGV[5], ARGV[6], ARGV[7])
return answer
