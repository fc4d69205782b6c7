# Stops itself and never goes on.
# expect: timeout
# limits: seconds=2
# shows: stopping
import os
import signal

print("stopping")
os.kill(os.getpid(), signal.SIGSTOP)
