"""What one run has told us so far: frames in, a RunResult out. No engine, no clock."""

from dataclasses import dataclass, replace
from signal import SIGKILL
from typing import Any

from sandbox_core.archive import FileReceiver
from sandbox_core.errors import ProtocolError
from sandbox_core.event_feed import EventFeed
from sandbox_core.models import RunEvent, RunRequest, RunResult, SkippedFile
from sandbox_core.outcome import Evidence, Outcome, classify, describe_outcome
from sandbox_core.protocol import parse_header
from sandbox_core.streams import TextCleaner, Transcript

__all__ = ["Recorder"]

_STREAMS = {"o": "stdout", "e": "stderr"}
_MOST_SKIPPED = 200
_LONGEST_NAME = 4096
_LONGEST_REASON = 200
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
        self.seconds = 0.0
        self._request = request
        self._feed = feed
        self._step = 0
        self._last: _StepEnd | None = None
        self._cleaners = {stream: TextCleaner() for stream in _STREAMS.values()}
        self._transcript = Transcript(limits.kept_output_kib * 1024)
        self._output_left = limits.output_mib << 20
        self._files = FileReceiver(limits)
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
            raise ProtocolError(
                "The sandbox sent a broken message.", f"{kind} out of turn"
            )
        if kind in _STREAMS:
            self._take_output(_STREAMS[kind], untrusted_payload)
        elif kind == "d":
            self._files.data(untrusted_payload)
        else:
            self._take_header(kind, untrusted_payload)

    def _take_output(self, stream: str, untrusted_data: bytes) -> None:
        self._output_left -= len(untrusted_data)
        if self._output_left < 0:
            raise ProtocolError(
                "The sandbox sent a broken message.", "output above its cap"
            )
        self._add_text(stream, self._cleaners[stream].feed(untrusted_data))

    def _add_text(self, stream: str, text: str) -> None:
        if text:
            self._transcript.add(stream, text)
            self._feed.put(RunEvent("text", self._step, stream, text))

    def _take_header(self, kind: str, untrusted_payload: bytes) -> None:
        if kind == "h":
            self.hello = parse_header(
                untrusted_payload, {"gvisor": bool, "kernel": str}
            )
        elif kind == "s":
            self._take_started(untrusted_payload)
        elif kind == "x":
            self._take_step_end(untrusted_payload)
        elif kind == "v":
            self._value = parse_header(untrusted_payload, {"text": str})["text"]
        elif kind == "f":
            self._files.begin(parse_header(untrusted_payload, {"name": str})["name"])
        elif kind == "q":
            self._files.end()
        elif kind == "k":
            self._take_skipped(untrusted_payload)
        elif kind == "!":
            reason = parse_header(untrusted_payload, {"reason": str})["reason"]
            raise ProtocolError(
                "The sandbox could not run this. Try again; if it stays, tell your "
                "administrator.",
                reason[:_LONGEST_REASON],
            )
        else:
            self._take_done(untrusted_payload)

    def _take_started(self, untrusted_payload: bytes) -> None:
        self._step = parse_header(untrusted_payload, {"step": int})["step"]
        if not 0 <= self._step < len(self._request.steps):
            raise ProtocolError("The sandbox sent a broken message.", "no such step")
        self.started = True
        self._feed.put(RunEvent("started", self._step))

    def _take_step_end(self, untrusted_payload: bytes) -> None:
        optional = (int, type(None))
        end = parse_header(
            untrusted_payload, {"step": int, "exit_code": optional, "signal": optional}
        )
        if end["step"] != self._step or (end["exit_code"] is None) == (
            end["signal"] is None
        ):
            raise ProtocolError("The sandbox sent a broken message.", "step end")
        self._last = _StepEnd(end["step"], end["exit_code"], end["signal"])
        is_last = self._step == len(self._request.steps) - 1
        self.program_over = is_last or end["exit_code"] != 0

    def _take_skipped(self, untrusted_payload: bytes) -> None:
        entry = parse_header(untrusted_payload, {"name": str, "reason": str})
        if len(self._skipped) < _MOST_SKIPPED:
            name, reason = (
                entry["name"][:_LONGEST_NAME],
                entry["reason"][:_LONGEST_REASON],
            )
            self._skipped.append(SkippedFile(name, reason))

    def _take_done(self, untrusted_payload: bytes) -> None:
        types = dict.fromkeys(_FLAGS, bool) | {"seconds": (int, float)}
        values = parse_header(untrusted_payload, types)
        self.seconds = float(values.pop("seconds"))
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
        told: dict[str, Any] = {
            flag: value or getattr(host, flag) for flag, value in self._flags.items()
        }
        seen = replace(
            host,
            done=self.done,
            exit_code=last.exit_code if last else None,
            signal=last.signal if last else None,
            **told,
        )
        outcome = classify(seen)
        limits = self._request.limits
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
            files=self._files.complete_files(),
            skipped=tuple(self._skipped),
            notes=_notes(outcome, seen, self._request),
            seconds=self.seconds,
            failed_step=last.step if last and went_wrong else None,
            evidence={
                **facts,
                "kernel": str((self.hello or {}).get("kernel", ""))[:200],
            },
        )


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
