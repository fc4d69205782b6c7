# Children that are stopped, traced, or blocked in a pipe when the main program ends.
# expect: ok
# shows: left them
import os
import signal
import time

for number in range(12):
    if os.fork() == 0:
        if number % 3 == 0:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif number % 3 == 1:
            os.mkfifo(f"/tmp/pipe{number}")
            open(f"/tmp/pipe{number}").read()
        else:
            signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
            time.sleep(60)
time.sleep(0.5)
print("left them")
