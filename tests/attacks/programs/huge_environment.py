# Passes on an environment and arguments as large as they can get.
# expect: ok
# shows: started
import os
import subprocess

for size in (1 << 16, 1 << 17, 1 << 20, 1 << 23):
    try:
        env = {f"N{i}": "x" * 100_000 for i in range(size // 100_000 + 1)}
        done = subprocess.run(
            ["/bin/echo", "started", str(size)], env=env, stdout=subprocess.PIPE
        )
        print(done.stdout.decode().strip())
    except OSError as error:
        print(size, error.errno)
os.environ["BIG"] = "x" * 10_000_000
