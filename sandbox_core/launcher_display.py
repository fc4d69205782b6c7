"""The launcher's display part: a program's figures, images and rich values, as files.

The launcher executes this text when a program first imports something that can show a
picture, or when its last value has a rich form. What is shown goes to numbered files in a
folder outside the work folder, ``NUMBER-KIND.ENDING``; at most MOST_DISPLAYS of them.

The program must not notice. So nothing here is ever below the program's own calls on the
stack, where a traceback would show it; nothing that drawing says is printed; and a forked
child shows nothing. Only this differs from a plain run with the Agg backend:

* the first pyplot command that draws after ``show()`` starts a new figure, as it does
  wherever showing opens windows, and in a notebook;
* what drawing settles (positions of an automatic layout) is settled by ``show()``.

No module is imported that is not loaded already: a file of the program could take its place.
"""

import io
import os
import sys

from sandbox_core.launcher_figures import Figures, Quietly

MOST_DISPLAYS = 40
LARGEST_DISPLAY = 8 << 20
ALL_DISPLAYS = 24 << 20
# A PNG larger than this is a photograph, which JPEG keeps better.
LARGEST_PNG = 2 << 20
# In the order in which a notebook prefers them.
RICH_FORMS = (
    ("text/html", "_repr_html_", "html"),
    ("image/svg+xml", "_repr_svg_", "svg"),
    ("image/png", "_repr_png_", "png"),
    ("image/jpeg", "_repr_jpeg_", "jpg"),
)
BINARY_ENDINGS = ("png", "jpg")
FRAME_MARK = 'class="dataframe"'


class Folder:
    """The numbered files of what was shown. Called only by the program's own process."""

    def __init__(self, path):
        self.path = path

    def add(self, kind, ending, data, replaced=None):
        """Keep a display if there is room for it; its path, or None. ``replaced``: the path of
        the one whose place it takes."""
        os.makedirs(self.path, exist_ok=True)
        if replaced is not None:
            os.unlink(replaced)
        names = os.listdir(self.path)
        used = sum(os.stat(os.path.join(self.path, name)).st_size for name in names)
        room = min(LARGEST_DISPLAY, ALL_DISPLAYS - used)
        if self.is_full() or len(data) > room:
            return None
        number = max((int(name.partition("-")[0]) for name in names), default=0) + 1
        stem = f"{number:03d}-{kind}"
        if replaced is not None:
            stem = os.path.splitext(os.path.basename(replaced))[0]
        path = os.path.join(self.path, f"{stem}.{ending}")
        self.write(path, data)
        return path

    def is_full(self):
        return os.path.isdir(self.path) and len(os.listdir(self.path)) >= MOST_DISPLAYS

    def write(self, path, data):
        """A whole file or none: what is not complete has no name that counts."""
        try:
            with open(path + ".part", "wb") as file:
                file.write(data)
            os.replace(path + ".part", path)
        except OSError:
            os.unlink(path + ".part")


class Display:
    """All that a program shows. The launcher makes one, and calls its public methods."""

    def __init__(self, path):
        self.folder = Folder(path)
        self.process = os.getpid()
        self.figures = None

    def module_imported(self, name):
        """A module that can show something is there: be told when it does."""
        if name == "matplotlib.pyplot":
            self.all_figures().watch(sys.modules[name])
        elif name == "plotly.io._renderers":
            self.watch_charts(sys.modules[name])
        else:
            self.watch_images(sys.modules[name])

    def program_ended(self):
        """Show the figures that are still open."""
        if self.figures is not None and self.figures.pyplot is not None:
            self.figures.add_open()

    def text_of(self, value):
        """The text form of a rich value, where its repr is a worse one; else None."""
        try:
            if is_a(value, "pandas", "DataFrame"):
                return frame_text(value)
            markdown = rich_form(value, "text/markdown", "_repr_markdown_")
            return markdown if isinstance(markdown, str) else None
        except Exception:
            return None

    def show_value(self, value):
        """Show the last value as a notebook does, if it has more than a text form."""
        if is_a(value, "matplotlib.figure", "Figure"):
            self.all_figures().add(value)
            return
        if is_a(value, "PIL.Image", "Image"):
            self.folder.add("value", *encode_image(value))
            return
        for media, method, ending in RICH_FORMS:
            data = as_bytes(rich_form(value, media, method), ending)
            if data:
                # The text form of a frame says the same, and can be read by a model too.
                if ending != "html" or FRAME_MARK.encode() not in data:
                    self.folder.add("value", ending, data)
                return

    def all_figures(self):
        if self.figures is None:
            self.figures = Figures(self.folder)
        return self.figures

    def watch_images(self, image_show):
        display = self

        class Viewer(image_show.Viewer):
            """Takes the images that the program shows; PIL asks it before all others."""

            format = "PNG"

            def show_image(self, image, **options):
                if os.getpid() != display.process:
                    return 0
                with Quietly():
                    display.folder.add("image", *encode_image(image))
                return 1

        image_show.register(Viewer(), 0)

    def watch_charts(self, plotly):
        """Be the renderer of plotly's show(), unless the program names one."""
        display = self

        class Renderer(plotly.ExternalRenderer):
            """Takes a chart as HTML that fetches plotly's script when it is looked at."""

            def render(self, chart):
                if os.getpid() != display.process:
                    return
                with Quietly():
                    to_html = sys.modules["plotly.io"].to_html
                    html = to_html(chart, include_plotlyjs="cdn", validate=False)
                    display.folder.add("figure", "html", html.encode())

        plotly.renderers["run_code"] = Renderer()
        if "PLOTLY_RENDERER" not in os.environ:
            plotly.renderers.default = "run_code"


def is_a(value, module, name):
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def encode_image(image):
    """(ending, bytes) of an image of PIL."""
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        image = image.convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    if buffer.tell() <= LARGEST_PNG or image.mode not in ("L", "RGB"):
        return "png", buffer.getvalue()
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90)
    return "jpg", buffer.getvalue()


def frame_text(frame):
    """A table of pandas as text: whole lines, as many rows and columns as a notebook shows."""
    get_option = sys.modules["pandas"].get_option
    return frame.to_string(
        max_rows=get_option("display.max_rows"),
        min_rows=get_option("display.min_rows"),
        max_cols=get_option("display.max_columns"),
        show_dimensions=get_option("display.show_dimensions"),
    )


def rich_form(value, media, method):
    """One form of a value by its protocol's methods, or None."""
    for name in ("_repr_mimebundle_", method):
        if not hasattr(type(value), name):
            continue
        form = getattr(value, name)()
        form = form[0] if isinstance(form, tuple) else form
        if name == "_repr_mimebundle_":
            form = form.get(media) if isinstance(form, dict) else None
        if form is not None:
            return form
    return None


def as_bytes(form, ending):
    """The bytes of a form; images may come as base64, which whoever made it has loaded."""
    if isinstance(form, str) and ending in BINARY_ENDINGS:
        binascii = sys.modules.get("binascii")
        return binascii and binascii.a2b_base64(form)
    if isinstance(form, str):
        return form.encode("utf-8", "replace")
    return form if isinstance(form, bytes) else None
