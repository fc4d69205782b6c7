import pandas as pd

frame = pd.DataFrame({"a": [1, 2]})
print(frame["b"])
