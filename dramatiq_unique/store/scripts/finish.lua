-- finish: the owner lets go of its locks. Whoever is not the owner lets go of nothing, and twice is nothing.
--
-- KEYS  1 queue lock   2 run lock
-- ARGV  1 message_id   2 "<queue> <run> <since> <token> <enqueues>": queue lock: '' keeps it, delivery lets it go where it
--       was left to this delivery, or to the enqueue that this delivery comes from; message also where it was left to
--       another delivery, or was last seen before since, in ms ago, or ''; anybody whoever it was left to; run, 1 lets the
--       run lock go, and wakes those who wait for it on the channel "<prefix>:{<digest>}:released"; token of the
--       delivery; tokens of that enqueue, with spaces between
-- gives '<queue lock> <run lock>': how long it was held, in ms, where it was let go, else -1
--
-- Atomic because the owner is compared before it is dropped: the message may have been sent again since, or run again.

local id, now, queue_ms, run_ms = ARGV[1], clock(), -1, -1
local queue, lets_run_go, since, owners = string.match(ARGV[2], '^(%a*) (%d) (%d*)( .*)$')
local token = string.match(owners, '^ (%S*)')
local raw = queue ~= '' and redis.call('HGET', KEYS[1], 'o:' .. id)
local mine = raw and parse(raw)
local own = mine and string.find(owners .. ' ', ' ' .. owner(mine) .. ' ', 1, true)
local before = mine and since ~= '' and now - mine.touched > tonumber(since)
local ends = mine and queue == 'message' and (before or string.find(mine.token, '^-'))
if mine and (own or ends or queue == 'anybody') then
  drop(KEYS[1], id)
  queue_ms = now - mine.since
elseif mine and running(mine) == token then -- It was enqueued again meanwhile, by another delivery, and waits from now on.
  mine.state = 'w'
  put(KEYS[1], id, now, mine)
end
raw = lets_run_go == '1' and redis.call('HGET', KEYS[2], 'o:' .. id)
local run = raw and parse(raw)
if run and run.token == token then
  drop(KEYS[2], id)
  redis.call('PUBLISH', (string.gsub(KEYS[2], 'run$', 'released')), id)
  run_ms = now - run.since
end
return string.format('%.0f %.0f', queue_ms, run_ms)
