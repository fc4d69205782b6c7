# A child keeps the pipe and prints for ever after the main program has ended.
# expect: ok
# shows: parent done
import os

if os.fork() == 0:
    while True:
        os.write(1, b"child\n" * 100)
os.write(1, b"parent done\n")
