"""The programs that are run in every way that is compared."""

from dataclasses import dataclass

from scripts.benchmarks.subject import BenchmarkError

__all__ = ["CHART", "NODE_LOG", "PANDAS", "PRINT", "PROGRAMS", "Program"]


@dataclass(frozen=True, slots=True)
class Program:
    """Some code. ``key`` names it in figures; ``modules`` are what it imports; ``output`` is
    all that it prints, where that is always the same."""

    key: str
    title: str
    code: str
    modules: tuple[str, ...] = ()
    output: str | None = None
    language: str = "python"

    def check_output(self, text: str) -> None:
        """Raises BenchmarkError when this is not what it prints."""
        if self.output is not None and text != self.output:
            raise BenchmarkError(f"{self.title} printed {text[:80]!r}.")


PRINT = Program("print", "print(1)", "print(1)", output="1\n")
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
NODE_LOG = Program(
    "node",
    "console.log(1) of Node.js",
    "console.log(1)",
    output="1\n",
    language="javascript",
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
