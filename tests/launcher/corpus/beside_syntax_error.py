with open("broken.py", "w") as file:
    file.write("def broken(:\n")

import broken
