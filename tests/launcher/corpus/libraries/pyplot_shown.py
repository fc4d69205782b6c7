import logging
import os
import sys

import matplotlib
import matplotlib.pyplot as plt

logging.basicConfig(level=logging.DEBUG, stream=sys.stdout)
logging.getLogger("matplotlib.font_manager").setLevel(logging.WARNING)
print(matplotlib.get_backend(), os.environ["MPLBACKEND"], plt.isinteractive())
plt.rcParams["font.family"] = "DejaVu Sans"  # a warning names several in any order
lines = plt.plot([1, 2, 3])
plt.title("温度 \U0001f9ea \ue000")
print(plt.show(), plt.get_fignums(), len(plt.gcf().axes), lines[0].get_color())
plt.savefig("shown.png")
print(os.path.getsize("shown.png"))
figure, axes = plt.subplots()
axes.xaxis.set_major_formatter(lambda value, place: print("formatting") or str(value))
figure.show()
plt.show(block=False)
print(plt.get_fignums(), figure.stale, axes.get_xlim())
plt.close("all")
print(plt.get_fignums(), [type(finder).__name__ for finder in sys.meta_path])
plt.bar(["a", "b"], [3, 4])
