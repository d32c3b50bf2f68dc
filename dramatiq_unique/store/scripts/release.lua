-- release: somebody who is not the owner lets go of a lock, if its holder still stands there as it was seen.
--
-- KEYS  1 the lock
-- ARGV  1 message_id   2 since_ms and 3 token that the holder was seen with   4 channel on which those who wait for a run
--       lock are woken, or ''
-- gives how long it was held, in ms, where it was let go, else -1
--
-- Atomic because in between the holder may let go, and another take the lock.

local now = clock()
local raw = redis.call('HGET', KEYS[1], 'o:' .. ARGV[1])
local seen = raw and parse(raw)
if not seen or seen.since ~= tonumber(ARGV[2]) or seen.token ~= ARGV[3] or seen.deadline <= now then return -1 end
drop(KEYS[1], ARGV[1])
if ARGV[4] ~= '' then redis.call('PUBLISH', ARGV[4], ARGV[1]) end
return now - seen.since
