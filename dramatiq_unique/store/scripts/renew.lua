-- renew: the lock of a message that is stored, or runs, is kept for longer.
--
-- KEYS  1 the lock
-- ARGV  1 message_id   2 token of the delivery (in a queue lock '-' before it, or '' for the message, whoever runs it)
--       3 how long from now, in ms   4 '1': the run of a job that sent its own message again is over, so that one waits
-- gives 1 where it was kept, 0 where the lease was lost: it lapsed, or is another delivery's
--
-- Atomic because the owner is compared before its deadline moves.

local now = clock()
local mine = alive(KEYS[1], ARGV[1], now)
if not mine or (ARGV[2] ~= '' and not speaks(mine, ARGV[2])) then return 0 end
local sent_again = ARGV[4] == '1' and mine.state == 'r' and string.find(mine.token, '^=')
if mine.state == 'n' or sent_again then mine.state = 'w' end
mine.deadline = math.max(mine.deadline, now + tonumber(ARGV[3]))
put(KEYS[1], ARGV[1], now, mine)
return 1
