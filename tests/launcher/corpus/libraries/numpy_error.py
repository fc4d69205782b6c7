import numpy as np

print("shapes")
np.linalg.solve(np.zeros((2, 2)), np.ones(2))
