# A gigabyte without a line end.
# expect: output_limit
# shows: xxxx
import os

for _ in range(16_000):
    os.write(1, b"x" * 65536)
