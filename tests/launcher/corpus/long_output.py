for number in range(5000):
    print("line", number, "x" * 40)
