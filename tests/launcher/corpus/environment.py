import os
import time

print(sorted(os.environ.items()))
print(os.getenv("GREETING"), os.environb[b"GREETING"])
print(time.tzname, time.localtime(0).tm_hour)
