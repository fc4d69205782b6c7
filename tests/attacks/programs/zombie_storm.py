# Children that end and are never waited for fill the table of processes.
# expect: ok failed process_limit
# limits: seconds=10
import os

made = 0
try:
    while True:
        if os.fork() == 0:
            os._exit(0)
        made += 1
except OSError as error:
    print("zombies", made, error.errno)
