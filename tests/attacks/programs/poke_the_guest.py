# Reads and writes whatever there is of the first process, and signals it.
# expect: ok
# shows: poked
# hides: FAKE
import glob
import os
import signal

FRAME = b"o" + (5).to_bytes(4, "big") + b"FAKE\n"
for name in (
    glob.glob("/proc/1/*") + glob.glob("/proc/1/fd/*") + glob.glob("/proc/1/task/*/*")
):
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            descriptor = os.open(name, flags | os.O_NONBLOCK)
            if flags == os.O_WRONLY and not os.path.samestat(
                os.fstat(descriptor), os.fstat(1)
            ):
                os.write(descriptor, FRAME)
            else:
                os.read(descriptor, 100)
        except OSError:
            pass
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
print("poked")
