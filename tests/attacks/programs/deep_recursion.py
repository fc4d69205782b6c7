# Recursion without end, in Python and in C.
# expect: failed memory_limit
# limits: memory_mib=256
# shows: RecursionError
import sys


def down(n):
    return down(n + 1)


try:
    down(0)
except RecursionError as error:
    print(type(error).__name__)
sys.setrecursionlimit(10**9)
down(0)
