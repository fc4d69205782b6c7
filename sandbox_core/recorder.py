"""What one run has told us so far: frames in, a RunResult out. No engine, no clock."""

import re
import time
from dataclasses import dataclass, replace
from signal import SIGKILL
from typing import Any, NoReturn

from sandbox_core.archive import FileReceiver, safe_output_name
from sandbox_core.displays import DISPLAY_LIMITS, name_displays
from sandbox_core.errors import ProtocolError
from sandbox_core.event_feed import EventFeed
from sandbox_core.languages import language_named
from sandbox_core.models import RunEvent, RunRequest, RunResult, SkippedFile
from sandbox_core.outcome import Evidence, Outcome, classify, describe_outcome
from sandbox_core.protocol import parse_header
from sandbox_core.spool import OutputSpool
from sandbox_core.streams import TextCleaner, Transcript, clean_text

__all__ = ["Recorder"]

_STREAMS = {"o": "stdout", "e": "stderr"}
_OF_A_STEP = "ncsx!"
_NO_HELLO = {"kernel": ""}
_MOST_SKIPPED = 200
_LONGEST_REASON = 200
_LONGEST_KERNEL = 200
_HIGHEST_CODE = 255
_NOT_FOUND = 127  # as a shell says it
_HIGHEST_SIGNAL = 64
_MOST_SECONDS = 1e6
_MOST_DIGITS = 9
_FLAGS = (
    "cancelled",
    "timed_out",
    "memory_killed",
    "output_capped",
    "processes_killed",
    "processes_full",
    "disk_full",
)


@dataclass(slots=True)
class _StepEnd:
    step: int
    exit_code: int | None
    signal: int | None
    compiling: bool = False
    missing: bool = False


class Recorder:
    """Takes the guest's frames in order and checks that their order makes sense.

    ``hello`` is the guest's description of its kernel; ``started``, ``program_over`` and
    ``done`` are the milestones that the runner's budgets hang on.
    """

    def __init__(self, request: RunRequest, feed: EventFeed) -> None:
        limits = request.limits
        self.hello: dict[str, Any] | None = None
        self.started = False
        self.program_over = False
        self.done = False
        self._seconds: float | None = (
            None  # of the programs, as the guest tells at the end
        )
        self._watched_seconds = 0.0  # the same as it looks from here
        self._running_since = 0.0
        self._request = request
        self._feed = feed
        self._step = 0
        self._running = False
        self._compiling = False
        self._last: _StepEnd | None = None
        self._cleaners = {stream: TextCleaner() for stream in _STREAMS.values()}
        self._transcript = Transcript(limits.kept_output_kib * 1024)
        self._spool = OutputSpool(min(limits.output_mib, limits.file_mib) << 20)
        self._output_left = limits.output_mib << 20
        self._files = FileReceiver(limits)
        self._displays = FileReceiver(DISPLAY_LIMITS)
        self._receiver = self._files
        self._skipped: list[SkippedFile] = []
        self._value: str | None = None
        self._flags: dict[str, bool] = {}

    @property
    def ended_suspiciously(self) -> bool:
        """Whether the end of the last step looks like the work of the OOM killer."""
        last = self._last
        return last is not None and (last.signal == SIGKILL or last.exit_code == 1)

    def take(self, kind: str, untrusted_payload: bytes) -> None:
        """One frame. Raises ProtocolError when it does not belong here."""
        if self.done or (self.hello is None and kind != "h"):
            _breach(f"{kind} out of turn")
        if kind in _STREAMS:
            self._take_output(_STREAMS[kind], untrusted_payload)
        elif kind in _OF_A_STEP:
            self._take_step_header(kind, untrusted_payload)
        elif self._running:
            _breach(f"{kind} while a program runs")
        elif kind == "d":
            self._receiver.data(untrusted_payload)
        else:
            self._take_header(kind, untrusted_payload)

    def _take_output(self, stream: str, untrusted_data: bytes) -> None:
        self._output_left -= len(untrusted_data)
        if self._output_left < 0 or not self._running:
            _breach("output above its cap, or of no program")
        self._add_text(stream, self._cleaners[stream].feed(untrusted_data))

    def _add_text(self, stream: str, text: str) -> None:
        if text:
            self._transcript.add(stream, text)
            self._spool.add(text)
            self._feed.put(RunEvent("text", self._step, stream, text))

    def _take_step_header(self, kind: str, untrusted_payload: bytes) -> None:
        if kind in "cs":
            self._take_started(kind, untrusted_payload)
        elif kind == "x":
            self._take_step_end(untrusted_payload)
        elif kind == "n":
            self._take_missing(untrusted_payload)
        else:
            reason = parse_header(untrusted_payload, {"reason": str})["reason"]
            raise ProtocolError(
                "The sandbox could not run this. Try again; if it stays, tell your "
                "administrator.",
                clean_text(reason[:_LONGEST_REASON]),
            )

    def _take_header(self, kind: str, untrusted_payload: bytes) -> None:
        if kind == "h":
            self._take_hello(untrusted_payload)
        elif kind == "v":
            self._take_value(untrusted_payload)
        elif kind in ("f", "p"):
            self._begin_file(kind, untrusted_payload)
        elif kind == "q":
            self._receiver.end()
        elif kind == "k":
            self._take_skipped(untrusted_payload)
        else:
            self._take_done(untrusted_payload)

    def _begin_file(self, kind: str, untrusted_payload: bytes) -> None:
        if self._receiver.is_open:
            _breach("a file within a file")
        self._receiver = self._files if kind == "f" else self._displays
        self._receiver.begin(parse_header(untrusted_payload, {"name": str})["name"])

    def _take_hello(self, untrusted_payload: bytes) -> None:
        if self.hello is not None:
            _breach("a second hello")
        self.hello = parse_header(untrusted_payload, {"gvisor": bool, "kernel": str})

    def _take_value(self, untrusted_payload: bytes) -> None:
        """The launcher's note of a value is a file that the program may spoil: a broken one
        is no value, and no breach."""
        try:
            text = parse_header(untrusted_payload, {"text": str})["text"]
        except ProtocolError:
            return
        self._value = clean_text(text)

    def _take_started(self, kind: str, untrusted_payload: bytes) -> None:
        """A compiler (c) or a program (s) starts; a program may follow its compiler."""
        follows = self._compiling and kind == "s"
        step = self._next_step(untrusted_payload, self._running and not follows)
        if not follows:
            self._feed.put(RunEvent("started", step))
        self._step, self._running, self._compiling = step, True, kind == "c"
        self._running_since = time.monotonic()
        self.started = True

    def _take_missing(self, untrusted_payload: bytes) -> None:
        """Nothing was started: the image has not what the language of this step needs."""
        step = self._next_step(untrusted_payload, self._running)
        self._step = step
        self._last = _StepEnd(step, _NOT_FOUND, None, missing=True)
        self.started = self.program_over = True

    def _next_step(self, untrusted_payload: bytes, is_busy: bool) -> int:
        step: int = parse_header(untrusted_payload, {"step": int})["step"]
        expected = 0 if self._last is None else self._last.step + 1
        if is_busy or self.program_over or step != expected:
            _breach(f"start of step {step}")
        return step

    def _take_step_end(self, untrusted_payload: bytes) -> None:
        optional = (int, type(None))
        end = parse_header(
            untrusted_payload, {"step": int, "exit_code": optional, "signal": optional}
        )
        code, number = end["exit_code"], end["signal"]
        fits = (
            0 <= code <= _HIGHEST_CODE and number is None
            if code is not None
            else number is not None and 1 <= number <= _HIGHEST_SIGNAL
        )
        if not self._running or end["step"] != self._step or not fits:
            _breach("end of a step")
        self._last = _StepEnd(self._step, code, number, self._compiling)
        self._stop_watch()
        self._running = self._compiling = False
        is_last = self._step == len(self._request.steps) - 1
        self.program_over = is_last or code != 0

    def _stop_watch(self) -> None:
        if self._running and not self._compiling:
            self._watched_seconds += time.monotonic() - self._running_since

    def _take_skipped(self, untrusted_payload: bytes) -> None:
        entry = parse_header(untrusted_payload, {"name": str, "reason": str})
        if len(self._skipped) < _MOST_SKIPPED:
            name = safe_output_name(entry["name"]) if entry["name"] else ""
            reason = clean_text(entry["reason"][:_LONGEST_REASON])
            self._skipped.append(SkippedFile(name, reason))

    def _take_done(self, untrusted_payload: bytes) -> None:
        types = dict.fromkeys(_FLAGS, bool) | {"seconds": (int, float)}
        values = parse_header(untrusted_payload, types)
        seconds = values.pop("seconds")
        if not 0 <= seconds <= _MOST_SECONDS:
            _breach("seconds out of range")
        if not (self.program_over or values["cancelled"]):
            _breach("an end before that of the programs")
        self._seconds = float(seconds)
        self._flags = values
        self.done = self.program_over = True

    def result(self, host: Evidence, facts: dict[str, str]) -> RunResult:
        """The result of the run: what was told here, joined with what the host saw.

        ``host`` carries error, cancelled, timed_out and oom; ``facts`` goes into evidence.
        """
        for stream, cleaner in self._cleaners.items():
            self._add_text(stream, cleaner.finish())
        stdout, stderr, output = self._transcript.finish()
        last = self._last
        if not self.program_over:
            self._stop_watch()
        told: dict[str, Any] = {
            flag: value or getattr(host, flag) for flag, value in self._flags.items()
        }
        seen = replace(
            host,
            done=self.done,
            exit_code=last.exit_code if last else None,
            signal=last.signal if last else None,
            compiling=self._compiling or bool(last and last.compiling),
            error_line=self._error_line(str(stderr)),
            missing=self._missing(),
            **told,
        )
        outcome = classify(seen)
        limits = self._request.limits
        files = self._files.complete_files()
        went_wrong = outcome is not Outcome.OK and last is not None
        return RunResult(
            run_id=self._request.run_id,
            outcome=outcome,
            message=describe_outcome(outcome, seen, limits),
            exit_code=seen.exit_code,
            signal=seen.signal,
            stdout=stdout,
            stderr=stderr,
            output=output,
            value=self._value,
            files=files,
            displays=name_displays(self._displays.complete_files(), files),
            skipped=(*self._skipped, *self._files.lost_files()),
            full_output=self._spool.finish(),
            notes=_notes(outcome, seen, self._request),
            seconds=self._watched_seconds if self._seconds is None else self._seconds,
            failed_step=last.step if last and went_wrong else None,
            evidence={
                **facts,
                "kernel": clean_text(
                    (self.hello or _NO_HELLO)["kernel"][:_LONGEST_KERNEL]
                ),
            },
        )

    def _error_line(self, stderr: str) -> int | None:
        """The first line of the program that its compiler names."""
        language = language_named(self._request.steps[self._step].language)
        if not language.line_reference or not language.compile_argv:
            return None
        found = re.search(language.line_reference, stderr)
        return int(found[1][:_MOST_DIGITS]) if found else None

    def _missing(self) -> str:
        """Which language the image does not have, if that is why the last step ended."""
        if self._last is None or not self._last.missing:
            return ""
        language = language_named(self._request.steps[self._last.step].language)
        has_it = f"The image {language.image} has it: ask" if language.image else "Ask"
        return (
            f"there is no {language.title} in this sandbox. {has_it} your administrator, or "
            "use another language"
        )


def _breach(detail: str) -> NoReturn:
    raise ProtocolError("The sandbox sent a broken message.", detail)


def _notes(outcome: Outcome, seen: Evidence, request: RunRequest) -> tuple[str, ...]:
    """Walls that the program touched and survived."""
    if outcome is not Outcome.OK:
        return ()
    limits = request.limits
    notes = []
    if seen.processes_full:
        notes.append(f"The program touched the limit of {limits.processes} processes.")
    if seen.disk_full:
        notes.append(
            f"A folder was full at the end: the work folder holds {limits.work_mib} MB, "
            f"/tmp {limits.tmp_mib} MB."
        )
    if seen.oom:
        notes.append("A process of the program was stopped for want of memory.")
    return tuple(notes)
