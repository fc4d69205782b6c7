"""The module's docstring."""

import sys

print(list(globals()))
print(__doc__, __name__, __file__, __package__, __spec__, __cached__)
print(type(__loader__).__name__, __loader__.name, __loader__.path)
print(__builtins__ is sys.modules["builtins"])
print(sys.modules["__main__"].__dict__ is globals())
