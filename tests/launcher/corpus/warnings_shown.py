import warnings


def old():
    warnings.warn("use new() instead", DeprecationWarning)
    warnings.warn("the caller is at fault", FutureWarning, stacklevel=2)


warnings.warn("at the top")
old()
old()
for _ in range(2):
    warnings.warn("once only", RuntimeWarning)
