import pickle

import pandas as pd


class Frame(pd.DataFrame):
    @property
    def _constructor(self):
        return Frame


copy = pickle.loads(pickle.dumps(Frame({"a": [1, 2]})))
print(type(copy).__module__, copy.equals(Frame({"a": [1, 2]})))
