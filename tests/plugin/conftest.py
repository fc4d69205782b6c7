"""Both plugins, each as its source modules and as the generated file, over the real engine."""

from pathlib import Path

import pytest

from owui_plugin.action import Action
from owui_plugin.tool import Tools
from tests.plugin.owui_loader import load_plugin

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = {
    "function": ROOT / "open-webui/functions/run_code.py",
    "tool": ROOT / "open-webui/tools/run_code.py",
}


@pytest.fixture(scope="package", autouse=True)
def cold():
    """The process-wide runtime keeps no sandbox ready and proves nothing: the tests that come
    later in this process count its sandboxes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUN_CODE_WARM_SANDBOXES", "0")
        patch.setenv("RUN_CODE_SELF_TEST", "false")
        yield


def artifact(family):
    """The plugin that Open WebUI makes of a generated file."""
    text = ARTIFACTS[family].read_text(encoding="utf-8")
    return load_plugin(text, family).instance


@pytest.fixture(params=["source", "artifact"])
def action(request):
    """The button."""
    return Action() if request.param == "source" else artifact("function")


@pytest.fixture(params=["source", "artifact"])
def tools(request):
    """The tool."""
    return Tools() if request.param == "source" else artifact("tool")
