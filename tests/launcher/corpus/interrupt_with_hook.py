import sys


def hook(kind, error, trace):
    print("hook got", kind.__name__, trace.tb_lineno)


sys.excepthook = hook
raise KeyboardInterrupt("again")
