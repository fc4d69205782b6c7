# Prints for ever while nobody looks.
# expect: output_limit timeout
# limits: seconds=10 output_mib=16
# consumer: asleep
# shows: first
print("first")
while True:
    print("x" * 1000)
