# A byte at a time, as fast as it goes.
# expect: timeout output_limit
# limits: seconds=3
import os

while True:
    os.write(1, b".")
