"""The launcher's figures: each one of matplotlib is drawn when it is shown, or left open.

A part of the display program, see launcher_display.py. Nothing here is ever below the
program's own calls on the stack, where a traceback would show it: what is asked for is found
by looking at the callers from events that every call passes.
"""

import io
import os
import sys
from _thread import get_ident

MOST_PIXELS = 16_000_000
LARGEST_FILE = 8 << 20
PICTURE_ENDINGS = ("png", "jpg", "jpeg", "webp", "svg")  # what a browser shows
# An SVG has its date in it, and names its parts by a random hash of ten digits.
CHANGING_IN_SVG = rb"<dc:date>[^<]*|[0-9a-f]{10}(?=[\"');])"
# The functions of pyplot through which all others get the axes that they draw in.
STARTING = ("gca", "axes", "subplot", "subplot2grid", "suptitle")
DEEPEST_CALL = 20


class Muted:
    """Stands in for a stream while we draw: silent for the drawing thread alone."""

    def __init__(self, stream):
        self._stream = stream
        self._thread = get_ident()

    def write(self, text):
        if get_ident() == self._thread:
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name):
        return getattr(self._stream, name)


class Quietly:
    """A block that draws: it prints and logs nothing, and fails without a word."""

    LIBRARIES = ("matplotlib", "PIL", "fontTools")

    def __enter__(self):
        self.streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (
            stream if stream is None else Muted(stream) for stream in self.streams
        )
        self.warnings = sys.modules.get("warnings")
        if self.warnings is not None:
            self.show_warning = self.warnings.showwarning
            self.warnings.showwarning = self.mute(self.show_warning)
        self.loggers = [one for one in self.library_loggers() if not one.disabled]
        for logger in self.loggers:
            logger.disabled = True

    def __exit__(self, kind, error, trace):
        for logger in self.loggers:
            logger.disabled = False
        if self.warnings is not None:
            self.warnings.showwarning = self.show_warning
        sys.stdout, sys.stderr = self.streams
        return kind is not None and issubclass(kind, (Exception, SystemExit))

    def library_loggers(self):
        logging = sys.modules.get("logging")
        if logging is None:
            return
        for name, logger in list(logging.root.manager.loggerDict.items()):
            if name.partition(".")[0] in self.LIBRARIES and hasattr(logger, "disabled"):
                yield logger

    def mute(self, show):
        thread = get_ident()

        def show_of_others(*arguments, **options):
            if get_ident() != thread:
                show(*arguments, **options)

        return show_of_others


class Picture:
    """How a figure was drawn when it was shown or saved, and the file that it went to."""

    def __init__(self, figure, options, path=None):
        self.options = options
        self.path = path
        self.places = places_of(figure)
        self.parts = parts_of(figure)
        self.look = None

    def file_if_unchanged(self, figure):
        """The bytes of the file, if the figure has not changed since and a look at its parts
        can tell (drawing leaves some of them marked as changed); else None."""
        if self.path is None or self.parts != parts_of(figure):
            return None
        if any(part.stale for part in figure.get_children()):
            return None
        return read_file(self.path)

    def draw_again(self, figure):
        """An automatic layout moves a little with each drawing: leave all where it was."""
        layout = layout_of(figure)
        if layout is None:
            return draw(figure, self.options)
        figure.set_layout_engine("none")
        places = places_of(figure)
        try:
            put(self.places)
            return draw(figure, self.options)
        finally:
            put(places)
            figure.set_layout_engine(layout)


class Figures:
    """Shows the figures of matplotlib: one display for each state that was shown."""

    def __init__(self, folder):
        weakref = sys.modules["weakref"]
        self.folder = folder
        self.process = os.getpid()
        self.shown = weakref.WeakKeyDictionary()
        self.saved = weakref.WeakKeyDictionary()  # the last picture file of each
        self.finished = weakref.WeakSet()  # what was shown by pyplot's show()
        self.pyplot = None

    def watch(self, pyplot):
        """Be told of what is shown, saved and drawn. No call to a program's code is wrapped."""
        if self.pyplot is not None:
            return
        self.pyplot = vars(pyplot)
        bases = sys.modules["matplotlib.backend_bases"]
        helpers = sys.modules["matplotlib._pylab_helpers"]
        show_anyway = bases.FigureManagerBase.show
        init_event = bases.DrawEvent.__init__
        get_active = helpers.Gcf.get_active
        self.managers = helpers.Gcf.get_all_fig_managers

        def show(manager):
            if os.getpid() != self.process or not is_agg(manager.canvas):
                return show_anyway(manager)
            return self.show(manager.canvas.figure, sys._getframe(1))

        def init(event, name, canvas, renderer):
            init_event(event, name, canvas, renderer)
            self.note_saving(canvas.figure, sys._getframe(1))

        def active():
            manager = get_active()
            if manager is None or manager.canvas.figure not in self.finished:
                return manager
            return None if self.is_starting(sys._getframe(1).f_back) else manager

        bases.FigureManagerBase.show = show
        bases.DrawEvent.__init__ = init
        helpers.Gcf.get_active = staticmethod(active)

    def show(self, figure, caller):
        """Show a figure now; the frame tells which function of pyplot, if any, asks for it."""
        asking = {frame.f_code.co_name for frame in self.pyplot_frames(caller)}
        if "pause" in asking:
            return  # a step of an animation, not its end
        self.add(figure)
        if "show" in asking:
            self.finished.add(figure)

    def add(self, figure):
        """Make a display of the figure, unless it looks as it did when it was shown."""
        if len(figure.get_children()) < 2 or self.folder.is_full():
            return  # there is nothing but its background, or no room
        with Quietly():
            before, saved = self.shown.get(figure), self.saved.get(figure)
            is_same = before and look_of(before.draw_again(figure)) == before.look
            if is_same and (saved is None or saved.options is before.options):
                return
            data, picture = self.draw_as_saved(figure, saved)
            # Saved after it was shown: one display still, which is the same as the file now.
            replaced = before.path if is_same else None
            ending = picture.options["format"]
            picture.path = self.folder.add("figure", ending, data, replaced)
            picture.look = look_of(data)
            self.shown[figure] = picture
            figure.stale = False  # whatever changes from now on says so

    def draw_as_saved(self, figure, saved):
        """(bytes, Picture) of a figure; the bytes of the file that it was saved as, if that is
        how it looks still: who gets files and displays can tell then that they are one.
        """
        if saved is None:
            options = new_options(figure)
            return draw(figure, options), Picture(figure, options)
        picture = Picture(figure, saved.options)
        data = saved.file_if_unchanged(figure)
        if data:
            return data, picture
        data = saved.draw_again(figure)
        kept = saved.path and read_file(saved.path)
        if kept and look_of(data) == look_of(kept):
            picture.places = saved.places
            return kept, picture
        if layout_of(figure) is None:
            picture.places = saved.places
            return data, picture
        return draw(figure, saved.options), Picture(figure, saved.options)

    def add_open(self):
        """Show what is open when the program has ended."""
        for manager in sorted(self.managers(), key=lambda manager: manager.num):
            figure = manager.canvas.figure
            was_shown = figure in self.shown and not figure.stale
            if is_agg(manager.canvas) and has_content(figure) and not was_shown:
                self.add(figure)

    def note_saving(self, figure, frame):
        """Remember how the figure is being saved as a picture: shown later, it is the same."""
        values = next(filter(None, map(saving_arguments, frames_from(frame))), None)
        if values is None or not isinstance(values["fname"], (str, os.PathLike)):
            return
        path = os.path.abspath(values["fname"])
        ending = os.path.splitext(path)[1][1:].lower()
        ending = values["kwargs"].get("format") or ending or "png"
        if ending in PICTURE_ENDINGS:
            options = dict(values["kwargs"], transparent=values["transparent"])
            for picture in self.saved.values():
                if picture.path == path:
                    picture.path = None  # this one takes its place
            self.saved[figure] = Picture(figure, dict(options, format=ending), path)

    def is_starting(self, frame):
        """Whether a function of pyplot asks for the figure to draw in."""
        return (
            frame is not None
            and frame.f_globals is self.pyplot
            and frame.f_code.co_name in STARTING
            and os.getpid() == self.process
        )

    def pyplot_frames(self, frame):
        return (one for one in frames_from(frame) if one.f_globals is self.pyplot)


def frames_from(frame):
    for _ in range(DEEPEST_CALL):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def saving_arguments(frame):
    """The arguments of a figure's savefig(), if that is what runs in the frame."""
    module = frame.f_globals.get("__name__")
    is_saving = module == "matplotlib.figure" and frame.f_code.co_name == "savefig"
    return frame.f_locals if is_saving else None


def is_agg(canvas):
    """Whether it is the default backend's: who has chosen another one shows things there."""
    return type(canvas).__name__ == "FigureCanvasAgg"


def has_content(figure):
    """Whether there is more than empty axes, as a plot that failed leaves them behind."""
    return any(axes.has_data() or axes.texts or axes.tables for axes in figure.axes)


def new_options(figure):
    """How a notebook shows a figure, but never so large that memory is short."""
    width, height = figure.get_size_inches()
    dpi = min(figure.dpi, (MOST_PIXELS / max(1, width * height)) ** 0.5)
    return {"format": "png", "bbox_inches": "tight", "dpi": dpi}


def draw(figure, options):
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()


def look_of(data):
    """What two drawings that look the same have in common."""
    if data[:5] == b"<?xml":
        data = sys.modules["re"].sub(CHANGING_IN_SVG, b"", data)
    return hash(data)


def places_of(figure):
    return [(axes, axes.get_position(True)) for axes in figure.axes]


def parts_of(figure):
    """What a figure is made of, and its size: of all else each part knows its changes."""
    return [*figure.get_size_inches(), *map(id, figure.get_children())]


def put(places):
    for axes, place in places:
        axes._set_position(place)  # set_position would take it out of the layout


def layout_of(figure):
    return figure.get_layout_engine() if hasattr(figure, "get_layout_engine") else None


def read_file(path):
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST_FILE + 1)
    except OSError:
        return None
