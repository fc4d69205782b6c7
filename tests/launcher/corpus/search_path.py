import sys

print(sys.path)
print("" in sys.path, sys.executable)
