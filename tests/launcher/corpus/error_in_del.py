class Fragile:
    def __del__(self):
        raise ValueError("in __del__")

    def __repr__(self):
        return "<fragile>"


thing = Fragile()
del thing
print("still here")
