values = [1, 2, 3]
[value * len(values) for value in values]
total = sum(value for value in values if value in [v for v in values])


class Holder:
    numbers = values
    copy = [n for n in values]


def change():
    global total
    total += 1


change()
print(total, Holder.copy, (last := 5), last, "value" in globals())
