import multiprocessing

import numpy as np


def total(array):
    return array.sum()


if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        print(pool.map(total, [np.ones(10), np.eye(3)]))
