import sys

print(sys._getframe().f_back is None)
