#!/bin/sh
# Starts a Redis server on a socket of its own, fills it, changes and empties it by Lua scripts, and ends it.
set -eu
redis-server --port 0 --unixsocket "$PWD/redis.sock" --save '' --daemonize no --logfile /dev/null &
trap 'kill $! 2>/dev/null || :' EXIT
until [ -S redis.sock ]; do sleep 0.01; done
ask() { redis-cli -s redis.sock "$@" >/dev/null; }
for round in 1 2; do
	ask eval 'for n = 1, 300000 do redis.call("set", "k" .. n, string.rep("x", n % 700)) end' 0
	ask eval 'for n = 1, 300000, 2 do redis.call("append", "k" .. n, string.rep("y", n % 900)) end' 0
	ask eval 'for n = 1, 200000 do redis.call("hset", "h" .. n % 2000, n, n) end' 0
	ask flushall sync
done
ask shutdown nosave || :
wait
trap - EXIT
echo "$round rounds"
