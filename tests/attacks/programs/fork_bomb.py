# Forks without end; whoever cannot fork tries again.
# expect: process_limit memory_limit
# limits: seconds=20 processes=64
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
