import traceback


def show():
    traceback.print_stack()
    print([frame.name for frame in traceback.extract_stack()])


show()
