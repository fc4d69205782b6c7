import atexit


@atexit.register
def last():
    print("last words", "__file__" in globals())
    raise OSError("too late")


print("end of main")
