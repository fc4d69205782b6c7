#!/usr/bin/env python3
"""Serve the demo model: an OpenAI-compatible stand-in that is not an AI.

demo_model.py --port 11435        serves http://127.0.0.1:11435/v1
"""

import sys

from bringup.demo_model import main

if __name__ == "__main__":
    sys.exit(main())
