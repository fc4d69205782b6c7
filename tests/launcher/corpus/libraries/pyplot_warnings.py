import warnings

import matplotlib.pyplot as plt


def warn():
    warnings.warn("once for each place", stacklevel=1)


plt.rcParams["font.family"] = "DejaVu Sans"
warn()
plt.title("no such glyph: \ue000")
plt.show()
warn()
print(warnings.showwarning is warnings._showwarning_orig)
plt.savefig("figure.png")
plt.gcf().axes[0].set_ylabel("another: \ue001")
