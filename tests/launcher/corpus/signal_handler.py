import signal
import time

seen = []
signal.signal(signal.SIGALRM, lambda number, frame: seen.append(frame.f_code.co_name))
signal.setitimer(signal.ITIMER_REAL, 0.01)
time.sleep(0.1)
print(seen)
signal.setitimer(signal.ITIMER_REAL, 60)
seen.append(1)
