import code


def main():
    code.InteractiveInterpreter({"x": 20}).runsource("x + 1")
    print("after")
    return "a value"


main()
