# Grandchildren in sessions of their own that ignore every signal there is, and hold the pipes.
# expect: ok
# shows: parent ends
import os
import signal
import time

for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_IGN)
        while True:
            time.sleep(0.01)
time.sleep(0.3)
print("parent ends")
