import sys


def hook(kind, error, trace):
    return error.no_such_attribute


sys.excepthook = hook
raise ValueError("the original")
