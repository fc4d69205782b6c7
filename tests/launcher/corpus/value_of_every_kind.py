import sys


class Printing:
    def __repr__(self):
        print("repr called")
        print("repr called", file=sys.stderr)
        raise SystemExit(99)


Printing()
