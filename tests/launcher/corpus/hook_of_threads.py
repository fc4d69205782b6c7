import threading


def hook(info):
    print("thread hook", info.exc_type.__name__, info.exc_value)


threading.excepthook = hook
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
