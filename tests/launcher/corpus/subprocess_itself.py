import subprocess
import sys

if len(sys.argv) == 2:
    print("second", sys.argv[1:], __name__)
else:
    print("first", flush=True)
    subprocess.run([sys.executable, __file__, "again"], check=True)
