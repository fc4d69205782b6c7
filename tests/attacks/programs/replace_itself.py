# Replaces its own file, and the places that others write to, while it runs.
# expect: ok
# shows: replaced
import os

os.unlink("main.py")
os.symlink("/proc/1/mem", "main.py")
for name in ("/tmp/.run-code-value", "/mnt/data/.placed"):
    try:
        os.symlink("/etc/passwd", name)
    except OSError:
        pass
os.rename("/tmp/home", "/tmp/elsewhere")
os.mkfifo("/tmp/home")
print("replaced")
1 + 1
