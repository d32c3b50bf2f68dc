-- send: acquire, and where the message has its lock, the script of its broker that stores it.
--
-- KEYS  1-2 as in acquire   3 hash in which the message is once it is stored   4... those of the broker's script
-- ARGV  1-6 as in acquire   7 field of the message in that hash   8... those of the broker's script
-- gives what acquire gives
--
-- Atomic because there must be no lock without its message, and no message without its lock.

local function acquire()
--[[acquire]]
end

local function store(KEYS, ARGV)
--[[store]]
end

local answer = acquire()
local status = answer == 'taken' and answer or answer[1]
local has_its_lock = status == 'taken' or status == 'mine' or status == 'replaced'
if has_its_lock and redis.call('HEXISTS', KEYS[3], ARGV[7]) == 0 then -- Else the answer was lost, and it is asked again.
  store({unpack(KEYS, 4)}, {unpack(ARGV, 8)})
  if status == 'replaced' then redis.call('HSET', KEYS[2], answer[4], '0 ' .. ARGV[1]) end -- As confirm does.
end
return answer
