import os

os.closerange(3, 65536)
print("closed")
sorted([2, 1])
