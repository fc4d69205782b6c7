import json

import random

print(json.ORIGIN, getattr(random, "ORIGIN", "loaded before"))
