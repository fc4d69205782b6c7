"""Short ways to ask a runner for a run, and to tell what became of it."""

from sandbox_core.limits import Limits
from sandbox_core.models import InputFile, RunRequest, Step

__all__ = ["contents", "describe", "request_of", "run", "run_steps"]


def run(runner, code, language="python", *, on_event=None, cancel=None, **options):
    """Run one program; see request_of for the options."""
    return run_steps(runner, [(language, code)], on_event, cancel, **options)


def run_steps(runner, steps, on_event=None, cancel=None, **options):
    """Run (language, code) steps in one sandbox."""
    return runner.run(request_of(steps, **options), on_event, cancel)


def request_of(steps, *, inputs=None, stdin=b"", **limits):
    """A request; ``inputs`` is a dict of names and bytes, all else are limits."""
    return RunRequest(
        steps=tuple(Step(language, code) for language, code in steps),
        files=tuple(InputFile(name, data) for name, data in (inputs or {}).items()),
        stdin=stdin,
        limits=Limits(**limits),
    )


def contents(result):
    """The files of a result, as a dict of names and bytes."""
    return {file.name: file.content.read() for file in result.files}


def describe(result):
    """All that an assertion message should show of a result."""
    return (
        f"{result.outcome} exit={result.exit_code} signal={result.signal} "
        f"{result.message!r} stdout={str(result.stdout)[-500:]!r} "
        f"stderr={str(result.stderr)[-1500:]!r} skipped={result.skipped} notes={result.notes}"
    )
