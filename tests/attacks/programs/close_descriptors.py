# Closes every descriptor, then goes on for a while.
# expect: ok
import os
import time

os.closerange(0, 4096)
time.sleep(0.5)
