import inspect
import sys


class Box:
    """Holds things."""

    def open(self):
        return "opened"


def join(a, b):
    # a comment
    return a + b


print(inspect.getsource(join))
print(inspect.getsource(Box))
print(inspect.getsource(Box.open))
print(
    inspect.getfile(Box), inspect.getsourcefile(join), inspect.getmodule(join).__name__
)
print(len(inspect.getsource(sys.modules[__name__]).splitlines()))
print(inspect.currentframe().f_lineno, inspect.signature(join))
