"""The runner contract: figures, images and rich values, on any runner that runs Python."""

import pytest

from sandbox_core.outcome import Outcome
from tests.contract.runs import contents, describe, run, run_steps

PLOTS = """
import matplotlib.pyplot as plt
plt.plot([1, 2, 3]); plt.title("温度 °C 🧪"); plt.show()
plt.figure(); plt.bar(["a", "b"], [3, 4]); plt.savefig("bars.png"); plt.show()
"""
SAVED_AND_LEFT_OPEN = """
import os
import matplotlib.pyplot as plt
plt.figure(); plt.plot([1, 2]); plt.savefig("same.png")
plt.figure(); plt.plot([1, 3]); plt.savefig("changed.png"); plt.title("later")
plt.figure(); plt.plot([1, 4]); plt.savefig("removed.png"); os.remove("removed.png")
plt.figure(); plt.plot([1, 5]); plt.savefig("taken.png")
plt.figure(); plt.plot([1, 6]); plt.savefig("taken.png")
"""
CHART = """
class Chart:
    def _repr_html_(self):
        return "<script>draw()</script>"
Chart()
"""
FORMS = {
    "_repr_html_": ("'<b>bold</b>'", "value-1.html", "text/html", b"<b>bold</b>"),
    "_repr_svg_": ("'<svg></svg>'", "value-1.svg", "image/svg+xml", b"<svg></svg>"),
    "_repr_png_": ("b'png'", "value-1.png", "image/png", b"png"),
    "_repr_jpeg_": ("(b'jpeg', {})", "value-1.jpg", "image/jpeg", b"jpeg"),
    "_repr_mimebundle_": (
        "{'text/plain': 'p', 'image/png': __import__('base64').b64encode(b'png').decode()}",
        "value-1.png",
        "image/png",
        b"png",
    ),
}
SPOILED = """
import os
folder = "/tmp/.run-code-display"
os.makedirs(folder)
os.chdir(folder)
os.symlink("/proc/self/environ", "001-figure.png")
os.mkfifo("002-figure.png")
open("003-figure.png", "wb").truncate(9 << 20)
os.mkdir("004-figure.png")
open("006-figure.txt", "w").write("no picture")
open("007-figure.png", "w").write("picture")
open("008-value.html", "w").write("value")
"""


def shown(result):
    return [(entry.name, entry.mime_type) for entry in result.displays]


class DisplayContract:
    """Inherit and give the fixture ``runner``."""

    def test_a_figure_saved_and_shown_is_one_picture(self, runner):
        result = run(runner, PLOTS)
        assert result.outcome is Outcome.OK, describe(result)
        assert shown(result) == [("figure-1.png", "image/png")]
        assert str(result.output) == ""
        (display,) = result.displays
        content = display.content.read()
        assert content.startswith(b"\x89PNG")
        assert len(content) == display.size
        assert contents(result)["bars.png"].startswith(b"\x89PNG")

    @pytest.mark.parametrize("then", ["plt.show()", "", "plt.show(); plt.show()"])
    def test_a_figure_saved_as_svg_is_one_picture_too(self, runner, then):
        code = "plt.plot([1, 2], 'o-'); plt.savefig('a.svg'); " + then
        result = run(runner, "import matplotlib.pyplot as plt\n" + code)
        assert shown(result) == [], describe(result)
        assert list(contents(result)) == ["a.svg"]

    def test_figures_left_open_are_shown_after_an_error(self, runner):
        code = "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.figure()\n1 / 0"
        result = run(runner, code)
        assert result.outcome is Outcome.FAILED, describe(result)
        assert shown(result) == [("figure-1.png", "image/png")]

    def test_what_was_shown_before_a_time_out_is_kept(self, runner):
        code = (
            "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()\nwhile 1: pass"
        )
        result = run(runner, code, seconds=8)
        assert result.outcome is Outcome.TIMEOUT, describe(result)
        assert shown(result) == [("figure-1.png", "image/png")]

    def test_showing_begins_a_new_figure(self, runner):
        code = """
import matplotlib.pyplot as plt
plt.plot([1]); plt.show()
plt.plot([2]); print(len(plt.gca().lines)); plt.show()
plt.show()
"""
        result = run(runner, code)
        assert str(result.output) == "1\n", describe(result)
        assert shown(result) == [
            ("figure-1.png", "image/png"),
            ("figure-2.png", "image/png"),
        ]

    def test_a_figure_left_open_is_shown_unless_its_file_shows_it(self, runner):
        result = run(runner, SAVED_AND_LEFT_OPEN)
        assert result.outcome is Outcome.OK, describe(result)
        assert sorted(contents(result)) == ["changed.png", "same.png", "taken.png"]
        assert len(shown(result)) == 3, describe(result)
        pictures = {display.content.read() for display in result.displays}
        assert not pictures & set(contents(result).values())

    def test_an_image_shown_twice_is_one_picture(self, runner):
        code = "from PIL import Image\ni = Image.new('L', (9, 9))\ni.show()\ni"
        result = run(runner, code)
        assert shown(result) == [("image-1.png", "image/png")], describe(result)
        assert result.value.startswith("<PIL.Image.Image image mode=L")

    @pytest.mark.parametrize("method", FORMS)
    def test_rich_forms_of_the_last_value(self, runner, method):
        form, name, media, content = FORMS[method]
        code = (
            f"class Rich:\n    def {method}(self, **options):\n        return {form}\n"
        )
        code += "    def __repr__(self): return 'text form'\nRich()"
        result = run(runner, code)
        assert shown(result) == [(name, media)], describe(result)
        assert result.displays[0].content.read() == content
        assert result.value == "text form"

    def test_a_frame_is_its_table_as_text(self, runner):
        code = "import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})"
        result = run(runner, code)
        assert result.value == "   a  b\n0  1  x\n1  2  y", describe(result)
        assert shown(result) == []

    def test_displays_of_all_steps(self, runner):
        result = run_steps(
            runner, [("python", CHART), ("bash", "true"), ("python", "")]
        )
        assert shown(result) == [("value-1.html", "text/html")], describe(result)

    def test_the_folder_of_displays_may_hold_anything(self, runner):
        result = run(runner, SPOILED)
        assert result.outcome is Outcome.OK, describe(result)
        assert [(e.name, e.content.read()) for e in result.displays] == [
            ("figure-1.png", b"picture"),
            ("value-1.html", b"value"),
        ]
