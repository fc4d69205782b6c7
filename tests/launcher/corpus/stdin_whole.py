import sys

print(sys.stdin.readlines(), sys.stdin.read())
