import linecache
import traceback

print(repr(linecache.getline(__file__, 1)))
try:
    {}[1]
except KeyError:
    traceback.print_exc()
    print(traceback.format_exc())
