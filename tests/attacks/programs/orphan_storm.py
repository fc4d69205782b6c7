# Orphans by the hundred end at once: all are handed to the first process.
# expect: ok
# limits: seconds=20
# shows: orphans done
import os
import time

end = time.monotonic() + 2
while time.monotonic() < end:
    pid = os.fork()
    if pid == 0:
        try:
            for _ in range(4):
                if os.fork() == 0:
                    os._exit(0)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
print("orphans done")
