-- withdraw: a waiting message is taken out of a queue of the Redis broker.
--
-- KEYS  1 the list of ids   2 the hash of bodies
-- ARGV  1 redis_message_id   2 how many ids from either end are looked at
-- gives its body where it is gone, nil where it waits farther in, or a worker has fetched it
--
-- Atomic because an id without a body, or a body without an id, would stay in the broker for good.

local function near(rank)
  return redis.call('LPOS', KEYS[1], ARGV[1], 'RANK', rank, 'MAXLEN', ARGV[2])
end

if near(-1) then
  redis.call('LREM', KEYS[1], -1, ARGV[1])
elseif near(1) then
  redis.call('LREM', KEYS[1], 1, ARGV[1])
else
  return nil
end
local body = redis.call('HGET', KEYS[2], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return body
