# Leaves a writing end of its pipe on its way through a socket that only the message holds.
# expect: ok
# shows: gone
import os
import socket

left, right = socket.socketpair()
ends = [1, 2, left.fileno(), right.fileno()]
socket.send_fds(left, [b"x"], ends)
print("gone", flush=True)
os._exit(0)
