import sys

print("open")
sys.stdout.close()
