import random
import uuid

random.seed(7)
print(random.random(), random.choice("abcdef"), uuid.uuid4() != uuid.uuid4())
