import sys

print(sys.flags)
print(sys.warnoptions, sys._xoptions, sys.dont_write_bytecode)
print(sys.getrecursionlimit(), sys.getswitchinterval(), sys.gettrace())
