# Random bytes: no line ends, no valid text, escape sequences by chance.
# expect: output_limit timeout
# limits: seconds=10 output_mib=16
# consumer: asleep
cat /dev/urandom
