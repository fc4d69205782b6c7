class Noisy:
    def __init__(self, name):
        self.name = name

    def __del__(self):
        print("gone", self.name)


def fail():
    local = Noisy("local")
    return local.missing


kept = Noisy("global")
fail()
