import sys

print(ascii(sys.argv))
print(ascii(getattr(sys, "orig_argv", [""])[1:]))
