# 3,000 folders, each inside the other, and a file at the bottom.
# expect: ok
# shows: deep
# files: top.txt
import os

open("top.txt", "w").write("top")
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
open("bottom.txt", "w").write("bottom")
print("deep")
