import doctest


def add(a, b):
    """
    >>> add(1, 1)
    2
    >>> add(2, 2)
    5
    """
    return a + b


doctest.testmod()
