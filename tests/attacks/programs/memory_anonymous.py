# Takes memory in the plain way.
# expect: memory_limit
# limits: memory_mib=128
# shows: before
# files: kept.txt
open("kept.txt", "w").write("kept")
print("before")
held = []
while True:
    held.append(b"x" * 1_000_000)
