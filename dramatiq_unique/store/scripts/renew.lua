-- renew: the lock of a message that is stored, or runs, is kept for longer.
--
-- KEYS  1 the lock
-- ARGV  1 message_id   2 token of the delivery (in a queue lock '-' before it, or '' for the message, whoever runs it)
--       3 how long from now, in ms   4 the delivery that is over whose job had sent its own message again, or '':
--       that one waits now
-- gives 1 where it was kept, 0 where the lease was lost: it lapsed, or is another delivery's
--
-- Atomic because the owner is compared before its deadline moves.

local now = clock()
local mine = alive(KEYS[1], ARGV[1], now)
if not mine or (ARGV[2] ~= '' and not speaks(mine, ARGV[2])) then return 0 end
local runner = running(mine)
if mine.state == 'n' or runner and runner == ARGV[4] and string.find(mine.token, '^=') then mine.state = 'w' end
mine.deadline = math.max(mine.deadline, now + tonumber(ARGV[3]))
put(KEYS[1], ARGV[1], now, mine)
return 1
