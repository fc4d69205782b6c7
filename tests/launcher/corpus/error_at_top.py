numbers = {"one": 1}
print(numbers["one"] + numbers["two"])
