def convert(text):
    try:
        return int(text)
    except ValueError as error:
        raise TypeError("cannot use it") from error


try:
    convert("x")
except TypeError:
    raise RuntimeError("while handling")
