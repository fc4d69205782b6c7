import os

import matplotlib.pyplot as plt

plt.plot([1, 2, 3])
plt.title("Größe")
plt.savefig("figure.png")
print(plt.get_backend(), os.path.getsize("figure.png"), plt.get_fignums())
plt.show()
plt.close("all")
