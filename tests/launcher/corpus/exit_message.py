import sys

print("printed first")
sys.exit("no more fuel")
