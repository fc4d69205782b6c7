import sys


class Module:
    value = 5


sys.modules[__name__] = Module
import __main__

print(__main__.value, __name__)
len([1])
