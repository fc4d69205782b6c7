row = [0] * (2**59)
print(len(row))
