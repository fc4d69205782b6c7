import sys
import threading
import time
import warnings

import matplotlib.pyplot as plt

ended = threading.Event()


def talk():
    count = 0
    while not ended.is_set():
        count += 1
        print("talking", file=sys.stderr if count % 2 else sys.stdout)
        time.sleep(0.001)
    talked.append(count)


def count_lines(text):
    written.append(text)
    return len(text)


class Counting:
    write = staticmethod(count_lines)

    def flush(self):
        pass


talked, written = [], []
plt.plot(range(1000))
streams = sys.stdout, sys.stderr
sys.stdout = sys.stderr = Counting()
thread = threading.Thread(target=talk)
thread.start()
plt.show()
ended.set()
thread.join()
sys.stdout, sys.stderr = streams
print("".join(written).count("talking") == talked[0], sys.stdout is streams[0])
warnings.warn("said once", stacklevel=1)
