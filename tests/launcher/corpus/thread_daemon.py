import threading
import time


def work():
    print("daemon starts", flush=True)
    time.sleep(60)
    print("never")


thread = threading.Thread(target=work, daemon=True)
thread.start()
time.sleep(0.1)
print("main ends")
