print("own traceback imported")
