values = [1, 2, 3]
assert sum(values) == 7, f"{values} do not add up"
