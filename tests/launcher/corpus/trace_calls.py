import sys


def add(a, b):
    return a + b


def tracer(frame, event, argument):
    print(event, frame.f_code.co_name, frame.f_lineno)
    return tracer


sys.settrace(tracer)
add(1, 2)
sys.settrace(None)
