import sys

sys.stdin.read()
value = 3
breakpoint()
print(value)
