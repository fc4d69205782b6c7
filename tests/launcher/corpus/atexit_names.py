import atexit


class Resource:
    def close(self):
        print("closed", __name__, "__file__" in globals(), "__cached__" in globals())


atexit.register(Resource().close)
