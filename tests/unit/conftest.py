"""The scripts are programs, not a package: the tests import their modules by plain name."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
