import atexit
import sys
import traceback


@atexit.register
def look_back():
    print(sys.last_type, sys.last_value, "__file__" in globals())
    print(traceback.format_tb(sys.last_traceback))
    print(traceback.format_tb(sys.last_value.__traceback__))
    print(getattr(sys, "last_exc", sys.last_value) is sys.last_value)


raise ArithmeticError("remembered")
