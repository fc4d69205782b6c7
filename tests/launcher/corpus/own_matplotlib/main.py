import traceback

try:
    import matplotlib.pyplot
except ZeroDivisionError:
    traceback.print_exc()
import matplotlib.pyplot
