import sys

sys.stdout = open(1, "w", closefd=False)
print("buffered")
print("errors", file=sys.stderr)
raise ValueError("after both")
