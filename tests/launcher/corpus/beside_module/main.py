import helper
from package import part

print(helper.double(21), part.NAME, helper.__file__ == __file__)
helper.read_back()
