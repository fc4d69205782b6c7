import threading

print(threading.current_thread() is threading.main_thread())
print(
    threading.current_thread().name,
    threading.active_count(),
    len(threading.enumerate()),
)
