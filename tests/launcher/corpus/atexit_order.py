import atexit

for number in range(3):
    atexit.register(print, "registered", number)
print("main ends")
sum([1, 2])
