# The classic: every process starts two more, for ever.
# expect: process_limit memory_limit
b() { b | b & }; b
sleep 5
