while True:
    print("got", input("> "))
