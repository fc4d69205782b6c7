import threading
import time


def work():
    for number in range(3):
        time.sleep(0.05)
        print("thread", number, threading.main_thread().is_alive())


threading.Thread(target=work).start()
print("main ends")
max(1, 2)
