from __future__ import annotations


class Tree:
    left: Tree
    size: undefined_name


counter: Tree | int
print(Tree.__annotations__, __annotations__)
(lambda: 0)()
