# Uses up every descriptor, in many processes at once.
# expect: ok
# shows: 8
import os

pids = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                os.pipe()
        except OSError as error:
            os._exit(error.errno)
    pids.append(pid)
print(sum(os.waitpid(pid, 0)[1] == 24 << 8 for pid in pids))
