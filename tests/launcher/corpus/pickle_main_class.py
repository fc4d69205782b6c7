import dataclasses
import pickle


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


data = pickle.dumps([Point(1, 2), Point, len], protocol=4)
print(data)
print(pickle.loads(data))
