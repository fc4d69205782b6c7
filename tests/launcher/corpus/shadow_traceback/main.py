print("a program with an own module of a common name")
1 / 0
