import pandas as pd

frame = pd.DataFrame({"city": ["Oslo", "Bergen"], "size": [700, 290]})
print(frame.describe())
print(frame.groupby("city")["size"].sum())
frame
