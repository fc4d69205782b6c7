import os

os.environ["PYTHONINSPECT"] = "1"
print("then a prompt")
