# Many processes, each with a share that alone would be fine.
# expect: memory_limit
# limits: memory_mib=128
# shows: before
# files: kept.txt
import os
import time

open("kept.txt", "w").write("kept")
print("before")
for number in range(16):
    if os.fork() == 0:
        held = b"x" * (16 << 20)
        time.sleep(30)
        os._exit(0)
time.sleep(30)
