import atexit

import matplotlib.pyplot as plt

atexit.register(lambda: print("at exit", plt.get_fignums()))
plt.plot([1, 2])
raise SystemExit("half done")
