import pandas

calls = []


class Rich:
    def _repr_mimebundle_(self, include=None, exclude=None):
        print("printed while it is shown")
        calls.append("bundle")
        return {"text/plain": "rich"}

    def _repr_html_(self):
        raise SystemExit("not now")

    def __repr__(self):
        return "plain"


pandas.DataFrame({"a": range(3)})
print(repr(Rich()), calls)
Rich()
