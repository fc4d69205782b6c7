# A new user namespace would have no process limit of ours; it must not be had.
# expect: process_limit memory_limit
# limits: seconds=20
# shows: refused 1
unshare -Ur bash -c 'b() { b | b & }; b; sleep 5'
echo "refused $?"
unshare -Urpf --mount-proc bash -c 'b() { b | b & }; b; sleep 5' 2>/dev/null
b() { b | b & }; b
sleep 10
