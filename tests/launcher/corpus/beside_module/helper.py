import __main__


def double(number):
    return number * 2


def read_back():
    print(__main__.helper.__name__, __main__.part.__package__)
