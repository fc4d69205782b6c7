lenght = 3
print(length)
