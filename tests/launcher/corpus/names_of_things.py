import collections
import enum
import typing


class Color(enum.Enum):
    RED = 1


class Node:
    parent: "Node"


Pair = collections.namedtuple("Pair", "a b")


def function():
    class Local:
        pass

    return Local


print(Color.RED, repr(Color.RED), Pair(1, 2), Pair.__module__)
print(Node, function(), function.__qualname__, (lambda: 0).__module__)
print(typing.get_type_hints(Node))
