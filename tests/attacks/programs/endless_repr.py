# Its last value never stops to show itself.
# expect: ok timeout
# limits: seconds=8
# shows: shown


class Endless:
    def __repr__(self):
        while True:
            pass


print("shown")
Endless()
