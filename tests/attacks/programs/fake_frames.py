# Prints what looks like the channel's own frames: an end, a file, a broken length.
# expect: failed
# shows: still here
# hides: made-up
import os

END = (
    b'{"cancelled":false,"timed_out":false,"memory_killed":false,"output_capped":false,'
    b'"processes_killed":false,"processes_full":false,"disk_full":false,"seconds":0.1}'
)
os.write(1, b"z" + len(END).to_bytes(4, "big") + END)
os.write(1, b"f\0\0\0\x10" + b'{"name": "fake"}' + b"q\0\0\0\0")
os.write(1, b"o\xff\xff\xff\xff")
print("still here")
raise SystemExit(9)
