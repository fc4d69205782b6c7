import atexit
import os

pid = os.fork()
if pid:
    os.waitpid(pid, 0)
atexit.register(print, "atexit in", "parent" if pid else "child")
len([pid])
