import sys

sys.exit(300)
