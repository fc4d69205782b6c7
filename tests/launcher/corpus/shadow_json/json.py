ORIGIN = "beside the program"
print("own json imported as", __name__)
