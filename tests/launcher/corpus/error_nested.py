def outer(values):
    return [inner(value) for value in values]


def inner(value):
    return 1 / value


print("start")
outer([1, 0])
print("never")
