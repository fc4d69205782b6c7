import warnings

import matplotlib.pyplot
import numpy
import pandas

print(matplotlib.pyplot.rcParams["backend"], numpy.geterr())
print(pandas.get_option("display.width"))
print(len(warnings.filters) > 0)
