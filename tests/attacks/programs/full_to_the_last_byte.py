# Fills all folders to the last byte, then prints.
# expect: ok
# shows: full and talking
for folder in ("/mnt/data", "/tmp", "/dev/shm"):
    with open(folder + "/fill", "wb", buffering=0) as file:
        for size in (1 << 16, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                continue
print("full and talking")
