import sys


def hook(kind, error, trace):
    sys.exit(9)


sys.excepthook = hook
raise ValueError("not shown")
