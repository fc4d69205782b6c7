import builtins
import sys

sys.excepthook = builtins.print
raise OSError(2, "gone")
