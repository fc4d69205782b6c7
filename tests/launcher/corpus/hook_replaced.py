import sys
import traceback


def hook(kind, error, trace):
    print("hooked", kind.__name__, error, sys.exc_info())
    traceback.print_exception(kind, error, trace, file=sys.stdout)
    print(trace is error.__traceback__ is sys.last_traceback)
    print(sys.excepthook is hook)


sys.excepthook = hook
raise ValueError("mine")
