"""The runner contract: outcomes, steps and cancelling, on any runner.

A subclass per runner gives the fixture ``runner``.
"""

import threading
import time

import pytest

from sandbox_core.engines.base import CancelToken
from sandbox_core.errors import InvalidRequest
from sandbox_core.images import FULL_IMAGE
from sandbox_core.languages import LANGUAGES
from sandbox_core.models import RunEvent
from sandbox_core.outcome import Outcome
from tests.contract.runs import contents, describe, run, run_steps

# Those of the image that most have; test_languages.py has all.
USUAL = [entry for entry in LANGUAGES if entry.image != FULL_IMAGE]
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("armed")
while True:
    pass
"""
HOLDER = """
import os, sys, time
if os.fork() == 0:
    time.sleep(60)
print("parent done")
"""
DAEMONS = """
nohup setsid sh -c 'sleep 1; echo late >> late.txt' >/dev/null 2>&1 &
( trap '' TERM HUP INT; sleep 30 ) &
disown -a
echo started
"""


class OutcomeContract:
    """Inherit and give the fixture."""

    @pytest.mark.parametrize("language", USUAL, ids=lambda language: language.name)
    def test_each_language_passes_its_self_test(self, runner, language):
        result = run(runner, language.self_test.code, language.name)
        assert result.outcome is Outcome.OK, describe(result)
        assert str(result.stdout) == language.self_test.expected_stdout
        assert (result.exit_code, result.signal, result.message) == (0, None, "")
        assert 0 < result.seconds <= result.total_seconds

    def test_r14_a_failure_keeps_both_streams(self, runner):
        code = 'import sys\nprint("out"); print("err", file=sys.stderr); sys.exit(3)'
        result = run(runner, code)
        assert (result.outcome, result.exit_code) == (Outcome.FAILED, 3), describe(
            result
        )
        assert (str(result.stdout), str(result.stderr)) == ("out\n", "err\n")
        assert "exit code 3" in result.message

    def test_r14_a_signal_is_told_by_name(self, runner):
        result = run(runner, 'import os\nprint("x"); os.kill(os.getpid(), 11)')
        assert (result.outcome, result.signal) == (Outcome.FAILED, 11), describe(result)
        assert result.shell_exit_code == 139
        assert "SIGSEGV" in result.message
        assert str(result.stdout) == "x\n"

    def test_r15_success_keeps_stderr(self, runner):
        result = run(runner, 'import warnings; warnings.warn("careful"); print("ok")')
        assert result.outcome is Outcome.OK, describe(result)
        assert str(result.stdout) == "ok\n"
        assert "careful" in str(result.stderr)

    def test_r02_r21_a_time_out_keeps_output_and_files(self, runner):
        code = (
            'import time\nopen("partial.csv", "w").write("a,b\\n1,2\\n")\n'
            'for i in range(1000):\n    print("tick", i)\n    time.sleep(0.2)\n'
        )
        result = run(runner, code, seconds=2)
        assert result.outcome is Outcome.TIMEOUT, describe(result)
        assert str(result.stdout).startswith("tick 0\ntick 1\n")
        assert str(result.stdout).count("tick") >= 6
        assert contents(result) == {"partial.csv": b"a,b\n1,2\n"}
        assert "2 s" in result.message
        assert 1.9 < result.seconds < 4

    def test_r03_a_program_that_is_deaf_to_signals(self, runner):
        result = run(runner, DEAF, seconds=3)
        assert result.outcome is Outcome.TIMEOUT, describe(result)
        assert str(result.stdout) == "armed\n"
        assert result.seconds < 6

    def test_a_child_that_keeps_the_pipe_open_does_not_delay_the_end(self, runner):
        result = run(runner, HOLDER)
        assert result.outcome is Outcome.OK, describe(result)
        assert str(result.stdout) == "parent done\n"
        assert result.seconds < 5

    def test_r20_daemons_die_with_the_step(self, runner):
        look = (
            "sleep 2; ls; ps -eo user,args | grep -v 'ps -eo' | grep -c '[s]leep'; true"
        )
        result = run_steps(runner, [("bash", DAEMONS), ("bash", look)])
        assert result.outcome is Outcome.OK, describe(result)
        assert str(result.stdout) == "started\nmain.sh\nmain_2.sh\n0\n"

    def test_steps_share_files_and_the_first_failure_ends_the_run(self, runner):
        seen = []
        result = run_steps(
            runner,
            [
                ("bash", "echo one > a.txt; mkdir sub; echo 1"),
                (
                    "python",
                    "print(open('a.txt').read()); open('sub/b', 'w').write('b')",
                ),
                ("javascript", "console.log('three'); process.exit(7)"),
                ("bash", "echo never; touch never"),
            ],
            seen.append,
        )
        assert (result.outcome, result.exit_code) == (Outcome.FAILED, 7), describe(
            result
        )
        assert result.failed_step == 2
        assert str(result.stdout) == "1\none\n\nthree\n"
        assert contents(result) == {"a.txt": b"one\n", "sub/b": b"b"}
        starts = [event for event in seen if event.kind == "started"]
        assert starts == [
            RunEvent("started", 0),
            RunEvent("started", 1),
            RunEvent("started", 2),
        ]

    def test_the_time_limit_is_for_all_steps_together(self, runner):
        result = run_steps(runner, [("bash", "sleep 1.5; echo a")] * 3, seconds=2)
        assert (result.outcome, result.failed_step) == (Outcome.TIMEOUT, 1), describe(
            result
        )
        assert str(result.stdout) == "a\n"

    def test_a_program_that_cannot_be_started_says_so(self, runner):
        result = run(runner, "rm -f /mnt/data/main.sh; exec /mnt/data/nothing", "bash")
        assert (result.outcome, result.exit_code) == (Outcome.FAILED, 127), describe(
            result
        )
        assert "nothing" in str(result.stderr)

    def test_a_request_that_breaks_a_rule_is_refused(self, runner):
        with pytest.raises(InvalidRequest):
            run(runner, "1", "cobol")
        with pytest.raises(InvalidRequest):
            run(runner, "1", inputs={"../x": b""})

    # --- cancelling ------------------------------------------------------------------------

    @pytest.mark.parametrize(
        ("code", "kept"),
        [
            ("import time\nprint('so far')\ntime.sleep(60)", "so far\n"),
            ("print('so far', flush=True)\nwhile True: print('x' * 1000)", "so far\n"),
            (DEAF, "armed\n"),
        ],
        ids=["running", "flooding", "deaf"],
    )
    def test_h03_cancel_ends_a_run_and_keeps_its_output(self, runner, code, kept):
        cancel, said = CancelToken(), threading.Event()

        def watch(event):
            if event.kind == "text":
                said.set()

        result, took = cancelled_run(runner, code, cancel, said, watch)
        assert result.outcome is Outcome.CANCELLED, describe(result)
        assert str(result.stdout).startswith(kept)
        assert result.message == "The run was stopped on request."
        assert took < 10  # of 60

    def test_cancel_before_the_start(self, runner):
        cancel = CancelToken()
        cancel.cancel()
        began = time.monotonic()
        result = run(runner, "print(1)", cancel=cancel)
        assert (result.outcome, str(result.stdout)) == (Outcome.CANCELLED, "")
        assert time.monotonic() - began < 3

    @pytest.mark.parametrize("delay", [0.1, 0.3, 0.6, 0.9])
    def test_cancel_while_it_starts_or_uploads(self, runner, delay):
        cancel, sent = CancelToken(), threading.Event()
        threading.Timer(delay, sent.set).start()
        files = {f"big{i}": b"x" * (20 << 20) for i in range(5)}
        result, took = cancelled_run(
            runner, "import time; time.sleep(60)", cancel, sent, inputs=files
        )
        assert result.outcome is Outcome.CANCELLED, describe(result)
        assert took < 10  # of 60


def cancelled_run(runner, code, cancel, when, on_event=None, **options):
    """(result, seconds from the cancel to the end) of a run cancelled at an event."""
    cancelled_at = []

    def stop():
        assert when.wait(20)
        cancelled_at.append(time.monotonic())
        cancel.cancel()

    stopper = threading.Thread(target=stop)
    stopper.start()
    result = run(runner, code, on_event=on_event, cancel=cancel, **options)
    ended_at = time.monotonic()
    stopper.join()
    return result, ended_at - cancelled_at[0]
