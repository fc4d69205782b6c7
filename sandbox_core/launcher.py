"""Starts one Python program as a real ``__main__``, from a cold or a warm interpreter.

The guest runs this text as ``python3 -c LAUNCHER RELEASE_FD DISPLAY FOLDER [MODULE...]``, as
the program's user, in the work folder, with the program's own environment and pipes. DISPLAY
is the text of another program, which is run when there is a figure, an image or a rich value
to show, and puts them into FOLDER. The modules named are imported first, and a byte on
descriptor RELEASE_FD + 1 tells that they are; none means cold. Then the launcher waits on
RELEASE_FD for the release: fields ``name=value``, each followed by a NUL, and one more NUL
after the last. Neither paths, nor arguments, nor environment variables can hold a NUL, so
nothing is quoted.

``path``   absolute path of the program (once)
``value``  file that gets the value of a last bare expression, as JSON ``{"text": repr}`` (once)
``arg``    one argument of the program, in order (any number)
``env``    one ``NAME=value`` to add to the environment (any number)

If RELEASE_FD ends first, the launcher exits with 0 and says nothing. The value file is written
only if there is a value, is at most 400 KiB, and must be read as something that the program
could have written itself.

Everything else is as with ``python3 PATH ARGUMENTS``: exit status, output, threads, signals.
Only this differs, and cannot be helped:

* one more frame is below ``__main__``: seen in a printed stack, as the caller of module code,
  by a ``stacklevel`` that goes beyond the program, by a trace or profile function at the end,
  and as one or two calls less before the recursion limit;
* ``/proc/self/cmdline`` shows the launcher; modules preloaded (and from Python 3.13 on
  ``linecache``, which ``-c`` itself imports) are in ``sys.modules`` from the beginning, with
  the warning filters they set; what the garbage collector counts and calls frozen, and the
  process's age, are other ones;
* importing is watched: one more call of the import system is seen by a trace function;
* the value of a last bare expression lives until the program's threads have ended, and the code
  of ``__main__`` has one more constant, which takes that value.

Only what every interpreter has built in or has loaded at its start is imported here: a cold
start costs no more, and no file beside the program can take the place of a module.
"""

import _ast
import _signal
import atexit
import io
import os
import sys
import time

# importlib's own name for itself: importing importlib would run a file of that name.
SourceFileLoader = sys.modules["_frozen_importlib_external"].SourceFileLoader
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any, TypeGuard

VALUE_CHARACTERS = 64 * 1024
VALUE_SECONDS = 2.0
FIGURES_SECONDS = 10.0
# Who imports one of these may show figures or images.
SHOWING_MODULES = ("matplotlib.pyplot", "PIL.ImageShow", "plotly.io._renderers")
# Tracebacks leave out what belongs to an import, which they know by this name.
IMPORT_SYSTEM = "<frozen importlib._bootstrap>"
CUT_MARK = " … (cut)"
JSON_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), ord('"'), ord("\\"))}
# Stands in the syntax tree for the object that takes the last value; no program has this string.
TAKER_MARK = "the launcher's taker of the last value"
# What the interpreter takes out of __main__ when a program file has ended.
FORGOTTEN_NAMES = ("__file__", "__cached__")
PROCESS = os.getpid()


def preload(names: list[str]) -> None:
    """Import the modules; one that fails does so again in the program that imports it."""
    # The descriptors are silenced, not sys.stdout and sys.stderr: a module may keep those.
    saved = os.dup(1), os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    for name in names:
        try:
            __import__(name)
        except Exception:
            continue
    # Or the interpreter searches them for garbage at its end, for 0.4 s.
    __import__("gc").freeze()
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(saved[0], 1)
    os.dup2(saved[1], 2)
    for descriptor in (*saved, silence):
        os.close(descriptor)


def receive(descriptor: int) -> dict[str, list[str]]:
    """The fields of the release by name; SystemExit when there is none."""
    message = b""
    while not message.endswith(b"\0\0"):
        chunk = os.read(descriptor, 65536)
        if not chunk:
            raise SystemExit
        message += chunk
    os.close(descriptor)
    fields: dict[str, list[str]] = {"path": [], "value": [], "arg": [], "env": []}
    for field in os.fsdecode(message[:-2]).split("\0"):
        name, _, value = field.partition("=")
        fields[name].append(value)
    return fields


def new_main() -> dict[str, object]:
    """Put a new module in the place of ``__main__`` and return its namespace.

    Before the preload, because multiprocessing keeps the module that it finds; and empty until
    after it: what is frozen then is no garbage at the end.
    """
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    return vars(main)


def dress(path: str, arguments: list[str], additions: list[str]) -> None:
    """Make argv, path and environment those of ``python3 PATH ARGUMENTS``."""
    sys.argv = [path, *arguments]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [sys.orig_argv[0], path, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    for addition in additions:
        name, _, value = addition.partition("=")
        os.environ[name] = value
        if name == "TZ":
            time.tzset()


def load(path: str, arguments: list[str], taker: "LastValue") -> "CodeType":
    """The program's code; the taker gets the value of a last bare expression.

    What cannot be read or compiled, plain python3 is put in this one's place to complain of:
    nothing of the program has run yet, and nobody else words it as the interpreter does.
    """
    stderr = sys.stderr
    # Plain python3 would say the warnings again, so they wait until the program is compiled.
    sys.stderr = held = io.StringIO()
    try:
        with open(path, "rb") as file:
            code = compile_program(file.read(), path, taker)
    except Exception:
        os.execv(sys.executable, [sys.executable, path, *arguments])
    finally:
        sys.stderr = stderr
    if held.getvalue():
        stderr.write(held.getvalue())
    return code


def compile_program(source: bytes, path: str, taker: "LastValue") -> "CodeType":
    """Compile as `load` says, whatever compile raises; no flag of the launcher's is inherited.

    A shown expression ``x`` becomes ``x in taker``: nothing but one more operation at the end
    of the same code, which calls no method of x, so that debuggers and tracebacks see the same.
    """
    tree = compile(source, path, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, _ast.Module)
    if not tree.body or not is_shown(tree.body[-1], source):
        return compile(tree, path, "exec", dont_inherit=True)
    last = tree.body[-1]
    place = {name: getattr(last.value, name) for name in last.value._attributes}
    mark = _ast.Constant(TAKER_MARK, **place)
    last.value = _ast.Compare(last.value, [_ast.In()], [mark], **place)
    code = compile(tree, path, "exec", dont_inherit=True)
    constants = (taker if one == TAKER_MARK else one for one in code.co_consts)
    return code.replace(co_consts=tuple(constants))


def is_shown(last: _ast.stmt, source: bytes) -> "TypeGuard[_ast.Expr]":
    """Whether a notebook shows the last statement's value: no literal, no `;` after it."""
    if not isinstance(last, _ast.Expr) or isinstance(last.value, _ast.Constant):
        return False
    lines = source[3 * source.startswith(b"\xef\xbb\xbf") :].splitlines()
    end = last.end_lineno or last.lineno
    rest = [lines[end - 1][last.end_col_offset :], *lines[end:]]
    return not any(b";" in line.partition(b"#")[0] for line in rest)


class LastValue:
    """Takes the value of the last bare expression; it goes to a file when the program ends."""

    def __init__(self, path: str, displays: "Displays") -> None:
        self.path = path
        self.displays = displays

    def __contains__(self, value: object) -> bool:
        # A coroutine that nobody awaited has to end here: its warning names the running line.
        if value is not None and not hasattr(type(value), "cr_code"):
            atexit.register(self.write, value)
        return True

    def write(self, value: object) -> None:
        """Write the value's repr, then better forms of it: those may fail or take too long."""
        at_end(VALUE_SECONDS, lambda: self.write_text(bounded_repr(value)))
        at_end(VALUE_SECONDS, self.show, value)

    def write_text(self, text: str) -> None:
        """Write the value's text, in place of an earlier one."""
        if len(text) > VALUE_CHARACTERS:
            text = text[:VALUE_CHARACTERS] + CUT_MARK
        with open(self.path, "w", encoding="utf-8", errors="replace") as file:
            file.write(f'{{"text": "{text.translate(JSON_ESCAPES)}"}}')

    def show(self, value: object) -> None:
        """Show a value that speaks the protocol of notebooks, and write its text form."""
        if any(name.startswith("_repr_") for name in dir(type(value))):
            display = self.displays.load()
            text = display.text_of(value)
            if text:
                self.write_text(text)
            display.show_value(value)


class Displays:
    """Runs the display part, once there is something to show."""

    def __init__(self, program: str, folder: str) -> None:
        self.program = program
        self.folder = folder
        self.part: Any = None

    def load(self) -> "Any":
        """The display part, which is told when the program has ended."""
        if self.part is None:
            space: dict[str, Any] = {"__name__": "run_code_display"}
            exec(compile(self.program, "<display>", "exec", dont_inherit=True), space)
            self.part = space["Display"](self.folder)
            atexit.register(at_end, FIGURES_SECONDS, self.part.program_ended)
        return self.part

    def watch(self) -> None:
        """Have SHOWING_MODULES told to the display part, once they have been imported.

        The finder is changed, and not sys.meta_path, which a program may look at.
        """
        for name in SHOWING_MODULES:
            if name in sys.modules:
                self.imported(name)
        finder = sys.modules["_frozen_importlib_external"].PathFinder
        find = finder.find_spec

        def find_spec(name: str, *arguments: "Any") -> "Any":
            spec = find(name, *arguments)
            if name in SHOWING_MODULES and hasattr(spec, "loader"):
                self.follow(spec.loader, name)
            return spec

        finder.find_spec = staticmethod(as_import(find_spec))

    def follow(self, loader: "Any", name: str) -> None:
        """Be told when the loader has executed its module."""
        execute = loader.exec_module

        def exec_module(module: object) -> None:
            execute(module)
            self.imported(name)

        loader.exec_module = as_import(exec_module)

    def imported(self, name: str) -> None:
        """Tell the display part of a module; a fork shows nothing."""
        try:
            if os.getpid() == PROCESS:
                self.load().module_imported(name)
        except Exception:
            return  # not the library that we know


def as_import(function: "Any") -> "Any":
    """The function, as a part of the import system in the eyes of tracebacks."""
    function.__code__ = function.__code__.replace(co_filename=IMPORT_SYSTEM)
    return function


def at_end(seconds: float, work: "Any", *arguments: object) -> None:
    """Do work for the ended program, silently, unless that fails or takes too long.

    Of the program's own process alone: a fork that runs to its end does nothing.
    """
    if os.getpid() != PROCESS:
        return
    streams = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = io.StringIO()
    handler = _signal.signal(_signal.SIGALRM, stop_work)
    timer = _signal.setitimer(_signal.ITIMER_REAL, seconds, 0.1)
    try:
        try:
            work(*arguments)
        finally:
            _signal.setitimer(_signal.ITIMER_REAL, 0)
    except BaseException:
        pass  # the program has ended already, and how is not for this to say
    _signal.signal(_signal.SIGALRM, handler or _signal.SIG_DFL)
    _signal.setitimer(_signal.ITIMER_REAL, *timer)
    sys.stdout, sys.stderr = streams


def stop_work(number: int, frame: object) -> None:
    """Signal handler that ends what takes too long."""
    raise TimeoutError


def bounded_repr(value: "Any") -> str:
    """The value's repr; of a long sequence, only that of its beginning."""
    if type(value) in (str, bytes, list, tuple):
        # An item is at least one character long, so this cuts nothing that would be shown.
        value = value[:VALUE_CHARACTERS]
    return repr(value)


class Report:
    """The exception hook for the exception that ends the program.

    It hands on to the program's own hook what that would have got without a launcher. Being
    called by the interpreter, when the launcher's frame has gone, it leaves all else to it:
    exit status, signal 2 for KeyboardInterrupt, SystemExit raised by a hook.
    """

    def __init__(self) -> None:
        self.hook = sys.excepthook

    def __call__(self, kind: "Any", error: BaseException, trace: "Any") -> None:
        trace = without_launcher(error)
        sys.last_traceback = trace
        sys.excepthook = self.hook
        try:
            self.hook(kind, error, trace)
        except SystemExit:
            raise
        except BaseException as failure:
            sys.stderr.write("Error in sys.excepthook:\n")
            sys.__excepthook__(type(failure), failure, without_launcher(failure))
            sys.stderr.write("\nOriginal exception was:\n")
            sys.__excepthook__(kind, error, trace)
        if trace is not None:
            for name in FORGOTTEN_NAMES:
                trace.tb_frame.f_globals.pop(name, None)


def without_launcher(error: BaseException) -> "TracebackType | None":
    """Drop the launcher's frames from the error's traceback, and return what is left."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    BaseException.with_traceback(error, trace)
    return trace


if __name__ == "__main__":
    if sys.path[0] == "":
        del sys.path[0]
    namespace = new_main()
    displays = Displays(*sys.argv[2:4])
    if sys.argv[4:]:
        preload(sys.argv[4:])
    displays.watch()
    if sys.argv[4:]:
        os.write(int(sys.argv[1]) + 1, b"r")
        os.close(int(sys.argv[1]) + 1)
    release = receive(int(sys.argv[1]))
    path, arguments = release["path"][0], release["arg"]
    dress(path, arguments, release["env"])
    code = load(path, arguments, LastValue(release["value"][0], displays))
    if "__annotations__" in globals():
        namespace["__annotations__"] = {}
    namespace.update(__builtins__=__builtins__, __file__=path)
    namespace.update(__cached__=None, __loader__=SourceFileLoader("__main__", path))
    report = Report()
    # From here on no function is called that the program's own trace function could see.
    try:
        exec(code, namespace)
        for name in FORGOTTEN_NAMES:
            namespace.pop(name, None)
    except SystemExit:
        raise
    except BaseException:
        report.hook = getattr(sys, "excepthook", sys.__excepthook__)
        sys.excepthook = report
        raise
    finally:
        del namespace
        for name in ("stderr", "stdout"):
            try:
                getattr(sys, name).flush()
            except BaseException:
                continue  # reported, if it still fails, when the interpreter flushes again
