import os
import sys

sys.stdout.reconfigure(write_through=False)
print("never flushed")
os._exit(7)
