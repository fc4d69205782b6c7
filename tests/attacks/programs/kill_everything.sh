# Kills its session, its group and all that it can.
# expect: failed
# shows: goodbye
echo goodbye
setsid sleep 30 &
kill -KILL -1
kill -KILL 0
kill -KILL $$
