# A hundred busy processes against one watch.
# expect: timeout
# limits: seconds=3 memory_mib=1024
import os

for _ in range(100):
    if os.fork() == 0:
        while True:
            pass
while True:
    pass
