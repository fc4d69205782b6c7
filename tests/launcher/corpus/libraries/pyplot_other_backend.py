import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

plt.plot([1, 2])
plt.show()
plt.plot([2, 1])
print(plt.get_backend(), len(plt.gca().lines), plt.get_fignums())
plt.switch_backend("agg")
plt.figure()
print(plt.get_backend(), plt.get_fignums(), plt.show())
