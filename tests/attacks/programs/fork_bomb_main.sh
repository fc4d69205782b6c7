# The same, and the main program does not end by itself.
# expect: process_limit memory_limit
# limits: seconds=20
b() { b | b & }; b
while :; do :; done
