# Pipes, links, sockets, devices and holes where files are expected.
# expect: ok
# files: real.txt hole.bin
import os
import socket

os.mkfifo("pipe")
os.symlink("/etc/passwd", "link")
os.symlink("/proc/self/environ", "environ")
os.symlink("loop", "loop")
os.symlink("..", "up")
os.symlink("/", "root")
socket.socket(socket.AF_UNIX).bind("socket")
for name, kind, device in (("null", 0o020000, (1, 3)), ("block", 0o060000, (8, 0))):
    try:
        os.mknod(name, kind | 0o666, os.makedev(*device))
    except OSError:
        pass
open("hole.bin", "wb").truncate(8 << 20)
open("real.txt", "w").write("real")
