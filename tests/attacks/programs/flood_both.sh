# Both streams at once, while nobody looks.
# expect: output_limit timeout
# limits: seconds=10 output_mib=16
# consumer: asleep
# shows: first
echo first
yes out &
yes err >&2
