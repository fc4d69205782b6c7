class Noisy:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("gone", self.name, Noisy is None)


def unused():
    return first


first = Noisy("first")
second = Noisy("second")
cycle = [Noisy("in a cycle")]
cycle.append(cycle)
