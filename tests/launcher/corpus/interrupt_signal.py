import atexit
import os
import signal
import time

atexit.register(print, "atexit ran")
os.kill(os.getpid(), signal.SIGINT)
time.sleep(5)
