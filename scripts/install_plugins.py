#!/usr/bin/env python3
"""Install or update both plugins in a running Open WebUI.

    install_plugins.py --url http://localhost:8080 --api-key sk-...
    install_plugins.py --url http://localhost:8080 --email me@example.com --password ...
    install_plugins.py --check ...      why the button is missing, or nothing happens

The Function `run_code` becomes active for all models, the Tool `run_code` usable by every
user (`--admin-only`: by administrators). Running it again updates both and keeps their
settings. Needs nothing but Python.
"""

import sys

from bringup.install_command import main

if __name__ == "__main__":
    sys.exit(main())
