# Takes memory as files without a name.
# expect: memory_limit
# limits: memory_mib=128
# shows: before
# files: kept.txt
import os

open("kept.txt", "w").write("kept")
print("before")
files = []
while True:
    files.append(os.memfd_create("hog"))
    for _ in range(16):
        os.write(files[-1], b"x" * 1_000_000)
