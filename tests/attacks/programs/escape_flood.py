# Escape sequences that never end, and redraws of one line by the thousand.
# expect: ok
# shows: the end
import sys

for opener in ("\x1b]0;", "\x1bP", "\x1b[", "\x9d"):
    sys.stdout.write(opener * 20_000 + opener + "1" * 200_000 + "\n")
for number in range(100_000):
    sys.stdout.write(f"\r{number}")
print("\nthe end")
