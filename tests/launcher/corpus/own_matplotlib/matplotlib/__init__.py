print("a package of the program")
