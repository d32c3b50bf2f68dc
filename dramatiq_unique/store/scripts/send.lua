-- send: acquire, and where the message has its lock, the script of its broker that stores it.
--
-- KEYS  1-2 as in acquire   3 hash in which the message is once it is stored   4... those of the broker's script
-- ARGV  1-2 as in acquire   3 field of the message in that hash   4... those of the broker's script
-- gives what acquire gives
--
-- Atomic because there must be no lock without its message, and no message without its lock.

local function acquire(ARGV)
--[[acquire]]
end

local function store(KEYS, ARGV)
--[[store]]
end

-- Where it is stored the answer was lost, and it is asked again: it may run by now, and have let go.
if redis.call('HEXISTS', KEYS[3], ARGV[3]) == 1 then return replaced(KEYS[1], ARGV[1]) or false end
local answer = acquire({ARGV[1], ARGV[2], ''}) -- An orphan is found only by one that was refused.
local status = answer and string.match(answer, '^%a+')
if not status or status == 'mine' or status == 'replaced' then
  store({unpack(KEYS, 4)}, {unpack(ARGV, 4)})
  if status == 'replaced' then -- As confirm does.
    redis.call('HSET', KEYS[2], string.match(answer, '[^\n]*$'), '0 ' .. ARGV[1])
  end
end
return answer
