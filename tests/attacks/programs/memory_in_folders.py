# Fills /tmp and /dev/shm, also with files that are deleted and still open: no memory of its own.
# expect: ok
# shows: held 32 MiB
import os

for folder in ("/tmp", "/dev/shm"):
    file = open(folder + "/hog", "wb", buffering=0)
    if folder == "/tmp":
        os.unlink(file.name)
    try:
        while True:
            file.write(b"x" * 65536)
    except OSError as error:
        print(folder, error.errno)
    os.dup(file.fileno())
held = b"x" * (32 << 20)
print("held", len(held) >> 20, "MiB")
