"""The programs that are run in every way that is compared."""

from dataclasses import dataclass

__all__ = ["CHART", "PANDAS", "PRINT", "PROGRAMS", "Program"]


@dataclass(frozen=True, slots=True)
class Program:
    """Some Python. ``key`` names it in figures; ``modules`` are what it imports."""

    key: str
    title: str
    code: str
    modules: tuple[str, ...] = ()


PRINT = Program("print", "print(1)", "print(1)")
PANDAS = Program(
    "pandas",
    "pandas describe",
    "import pandas\nprint(pandas.DataFrame({'a': range(1000)}).describe())",
    ("pandas",),
)
CHART = Program(
    "chart",
    "a chart of matplotlib as PNG",
    "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.savefig('chart.png')\n"
    "print('saved')",
    ("matplotlib",),
)
_PRODUCT = Program(
    "matmul",
    "numpy product 1000 × 1000",
    "import numpy\nmatrix = numpy.ones((1000, 1000))\nprint((matrix @ matrix).sum())",
    ("numpy",),
)
_OUTPUT = Program(
    "output_10mb",
    "10 MB of output",
    "import sys\nfor _ in range(100):\n    sys.stdout.write(('x' * 99 + '\\n') * 1000)",
)
PROGRAMS = (PRINT, PANDAS, CHART, _PRODUCT, _OUTPUT)
