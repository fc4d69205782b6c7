# 200,000 files in one folder.
# expect: ok timeout memory_limit disk_limit
# limits: seconds=8
import os

made = 0
for number in range(200_000):
    try:
        open(f"f{number}", "w").close()
    except OSError as error:
        print("stopped", made, error.errno)
        break
    made += 1
    if number % 10_000 == 0:
        print(number)
