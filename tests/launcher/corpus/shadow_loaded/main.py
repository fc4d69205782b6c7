import atexit
import io
import os
import time

print(io.__name__, hasattr(os, "ORIGIN"), hasattr(time, "ORIGIN"))
print(hasattr(io, "ORIGIN"), hasattr(atexit, "ORIGIN"))
