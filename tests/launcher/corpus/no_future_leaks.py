class Plain:
    size: int = 1


print(Plain.__annotations__)
print(compile("1", "x", "eval").co_flags)
total: int = 2
print(globals().get("__annotations__"))


class Broken:
    size: undefined_name


print(Broken.__annotations__)
