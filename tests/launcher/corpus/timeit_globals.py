import timeit


def count():
    calls.append(1)


calls = []
print(timeit.timeit("count()", globals=globals(), number=3) > 0, len(calls))
timeit.repeat("calls.append(2)", "from __main__ import calls", repeat=1, number=1)
print(calls)
