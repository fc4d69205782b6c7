import sys

sys.displayhook = lambda value: print("shown", value)
1 + 1
