# Writes what it likes to where its value is looked for.
# expect: ok
# shows: spoilt
import os

with open("/tmp/.run-code-value", "w") as file:
    file.write('{"text": ' + "[" * 100_000)
os.chmod("/tmp/.run-code-value", 0)
print("spoilt")
