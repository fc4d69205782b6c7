import io
import sys


class Loud(io.StringIO):
    def flush(self):
        sys.__stdout__.write("flushed\n")


sys.stdout = Loud()
print("caught")
