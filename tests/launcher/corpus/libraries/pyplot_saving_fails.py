import traceback

import matplotlib.pyplot as plt

plt.plot([1, 2, 3])
plt.show()
for name in ("missing/figure.png", "figure.unknown", "missing/figure.svg"):
    try:
        plt.savefig(name)
    except (OSError, ValueError):
        traceback.print_exc()


class Broken(plt.Line2D):
    def draw(self, renderer):
        raise RuntimeError("cannot be drawn")


plt.gcf().axes[0].add_line(Broken([0, 1], [0, 1]))
plt.show()
plt.gcf().savefig("broken.png")
