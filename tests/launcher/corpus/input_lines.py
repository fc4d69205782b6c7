name = input("Name? ")
print("Hello", name)
print(repr(input()))
