"""The scripts are programs, not a package: the tests import their modules by plain name."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

# A slow machine, or a busy one, is no fault of the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
