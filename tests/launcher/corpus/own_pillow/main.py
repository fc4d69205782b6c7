import sys

import PIL.ImageShow

print(PIL.ImageShow.__loader__.__class__.__name__, PIL.ImageShow.__spec__.name)
print([type(finder).__name__ for finder in sys.path_hooks], len(sys.meta_path))
