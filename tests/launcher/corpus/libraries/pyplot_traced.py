import sys

import matplotlib.pyplot as plt


def trace(frame, event, argument):
    if frame.f_globals is globals():
        print(event, frame.f_code.co_name)
    return trace


def draw():
    plt.plot([1, 2])
    plt.show()


sys.settrace(trace)
draw()
sys.settrace(None)
