# Takes memory that is shared and anonymous.
# expect: memory_limit
# limits: memory_mib=128
# shows: before
# files: kept.txt
import mmap

open("kept.txt", "w").write("kept")
print("before")
held = []
while True:
    held.append(mmap.mmap(-1, 4 << 20))
    for start in range(0, 4 << 20, 4096):
        held[-1][start] = 1
