import os

pid = os.fork()
if pid == 0:
    print("child", __name__)
    raise SystemExit(4)
print("status", os.waitpid(pid, 0)[1] >> 8)
