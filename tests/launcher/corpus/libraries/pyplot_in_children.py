import multiprocessing
import os

import matplotlib.pyplot as plt


def work(number):
    plt.plot([number, 2])
    plt.show()
    plt.plot([3, number])
    return len(plt.gca().lines), plt.get_fignums()


if __name__ == "__main__":
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            print(pool.map(work, [1, 2]))
    child = os.fork()
    if child:
        print(os.waitpid(child, 0)[1])
    else:
        plt.plot([1])
        plt.show()
