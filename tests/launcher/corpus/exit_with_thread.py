import sys
import threading
import time


def work():
    time.sleep(0.1)
    print("the thread ends later", "__file__" in globals())


threading.Thread(target=work).start()
sys.exit(8)
