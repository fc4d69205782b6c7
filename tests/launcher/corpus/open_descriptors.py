import os

listing = os.open("/proc/self/fd", os.O_RDONLY)
print(sorted(set(map(int, os.listdir(listing))) - {listing})[:3])
for number in range(3, 1024):
    try:
        os.fstat(number)
    except OSError:
        continue
    print(number, number == listing)
