import sys


def tracer(frame, event, argument):
    if frame.f_globals is globals():
        print(event, frame.f_code.co_name)


def add(a, b):
    return a + b


sys.settrace(tracer)
total = add(1, 2)
