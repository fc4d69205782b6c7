"""Charts of plotly."""

import pytest

from sandbox_core.outcome import Outcome
from sandbox_core.runner import LocalRunner
from tests.contract.runs import describe, run

CHART = """
import plotly.graph_objects as go
chart = go.Figure(go.Bar(x=["a", "b"], y=[1, 2]))
"""


@pytest.fixture(scope="module")
def runner(engine, image):
    runner = LocalRunner(engine, image)
    yield runner
    runner.close()


def shown(runner, code, **options):
    result = run(runner, CHART + code, **options)
    assert result.outcome is Outcome.OK, describe(result)
    assert str(result.output) == ""
    return [(entry.name, entry.mime_type) for entry in result.displays], result


def test_a_chart_is_shown_as_html(runner):
    names, result = shown(runner, "chart.show()")
    assert names == [("figure-1.html", "text/html")]
    html = result.displays[0].content.read().decode()
    assert "https://cdn.plot.ly/" in html
    assert html.rstrip().endswith("</html>")


def test_a_program_that_names_a_renderer_is_left_alone(runner):
    named = "import plotly.io\nplotly.io.renderers.default = 'browser'\n"
    assert shown(runner, named + "print(end='')")[0] == []
    before = "import os; os.environ['PLOTLY_RENDERER'] = 'svg'\n"
    result = run(
        runner, before + CHART + "print(__import__('plotly.io').io.renderers.default)"
    )
    assert str(result.stdout) == "svg\n", describe(result)
