"""The picture of the comparison. It is drawn where all our pictures are: in a sandbox."""

import json
from collections.abc import Sequence

from sandbox_core.limits import Limits
from sandbox_core.models import RunRequest, Step
from sandbox_core.outcome import Outcome
from scripts.benchmarks.measurement import Measurement
from scripts.benchmarks.programs import PROGRAMS
from scripts.benchmarks.subject import BenchmarkError, Subject

__all__ = ["draw_comparison"]

_DRAW = """
import json
import sys
import matplotlib
import matplotlib.pyplot as plt

matplotlib.rcParams["svg.hashsalt"] = "run-code"
groups = json.load(sys.stdin)
figure, axes = plt.subplots(
    len(groups), 1, figsize=(9, 0.5 + 0.32 * sum(2 + len(rows) for rows in groups.values())),
    gridspec_kw={"height_ratios": [1 + len(rows) for rows in groups.values()]}, squeeze=False,
    layout="constrained", sharex=True,
)
for (title, rows), place in zip(groups.items(), axes[:, 0]):
    rows = sorted(rows, key=lambda row: -row[1])
    colors = ["#2f6f4f" if "this project" in name else "#b9c0c7" for name, _ in rows]
    bars = place.barh([name for name, _ in rows], [value for _, value in rows], color=colors)
    place.bar_label(bars, [f"{value:,.0f} ms".replace(",", " ") for _, value in rows], padding=4)
    place.set_title(title, loc="left", fontsize=10)
    place.set_xscale("log")
    place.set_xlim(5, 60_000)
    place.spines[["top", "right"]].set_visible(False)
axes[-1, 0].set_xlabel("from the request to the whole result, in milliseconds (median)")
figure.savefig("comparison.svg", metadata={"Date": None})
plt.close(figure)
"""


def draw_comparison(subject: Subject, measured: Sequence[Measurement]) -> bytes | None:
    """The comparison as an SVG; None when it was not among what was measured."""
    groups = {}
    for program in PROGRAMS:
        prefix = f"{program.title}: "
        rows = [
            (one.name.removeprefix(prefix).replace("`", ""), one.median)
            for one in measured
            if one.name.startswith(prefix) and one.unit == "ms"
        ]
        if rows:
            groups[program.title] = rows
    if not groups:
        return None
    runner = subject.runner()
    request = RunRequest(
        (Step("python", _DRAW),),
        stdin=json.dumps(groups).encode(),
        limits=Limits(seconds=60),
    )
    try:
        result = runner.run(request)
    finally:
        runner.close()
    if result.outcome is not Outcome.OK or len(result.files) != 1:
        raise BenchmarkError(f"The picture could not be drawn: {result.stderr}")
    return result.files[0].content.read()
