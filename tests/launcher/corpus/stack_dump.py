import faulthandler


def show():
    faulthandler.dump_traceback()


show()
