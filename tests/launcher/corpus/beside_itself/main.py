print("running as", __name__)
import main

print(main.__name__, main.__spec__.name, main.__file__ == __file__)
