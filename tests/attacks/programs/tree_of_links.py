# Folders that cannot be left or listed: names of all lengths and bytes, links to each other.
# expect: ok
# files: good.txt
import os

open("good.txt", "w").write("good")
for number in range(300):
    os.mkdir(b"\xff\n%d" % number + b"x" * 200)
    os.symlink("../" * (number + 1), f"up{number}")
os.mkdir("a")
os.symlink("../b", "a/b")
os.mkdir("b")
os.symlink("../a", "b/a")
