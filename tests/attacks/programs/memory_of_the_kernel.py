# Memory that no process has: pipes, full to the brim, by the thousand.
# expect: memory_limit ok
# limits: memory_mib=64 work_mib=1 tmp_mib=1 shm_mib=1 seconds=20
# shows: before
import fcntl
import os

print("before")
for _ in range(30):
    if os.fork() == 0:
        continue
    held = []
    try:
        while True:
            ends = os.pipe()
            held.append(ends)
            fcntl.fcntl(ends[1], 1031, 1 << 20)
            os.set_blocking(ends[1], False)
            os.write(ends[1], b"x" * (1 << 20))
    except OSError:
        os.wait() if held else None
        break
