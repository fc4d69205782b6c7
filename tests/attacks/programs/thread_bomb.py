# Threads without end, each of them busy.
# expect: ok failed timeout process_limit
# limits: seconds=3
import threading


def spin():
    while True:
        pass


while True:
    try:
        threading.Thread(target=spin, daemon=True).start()
    except RuntimeError as error:
        print("threads", threading.active_count(), error)
        break
