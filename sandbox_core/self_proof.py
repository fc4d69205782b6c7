"""Proves in the background that every limit bites, and says when nothing may run any more.

Runs are not kept waiting for it: each sandbox is asked for its kernel before it gets any
code, and the proofs come some seconds after the first run. A limit that does not bite, twice
in a row, ends the service of this process until a later proof holds.
"""

import logging
import threading
from collections.abc import Collection

from sandbox_core.doctor import prove_limits, reasons_to_refuse
from sandbox_core.engines.base import CancelToken, Finding
from sandbox_core.runner import Runner

__all__ = ["SelfProof"]

_FIRST_AFTER_SECONDS = 10.0
_AGAIN_AFTER_SECONDS = 60.0
_proof_log = logging.getLogger("run_code.proof")


class SelfProof:
    """The proofs of one runner; ``accepted`` are names of limits that need not hold."""

    def __init__(
        self,
        runner: Runner,
        accepted: Collection[str],
        first_after_seconds: float = _FIRST_AFTER_SECONDS,
    ) -> None:
        self._runner = runner
        self._accepted = frozenset(accepted)
        self._first_after_seconds = first_after_seconds
        self._stopped = threading.Event()
        self._cancel = CancelToken()
        self._refusal = ""

    def start(self) -> None:
        """Prove soon, in a thread of its own, which ends when the proofs hold."""
        threading.Thread(target=self._work, name="run-code-proof", daemon=True).start()

    def stop(self) -> None:
        """End what is under way. Idempotent."""
        self._stopped.set()
        self._cancel.cancel()

    def why_not(self) -> str:
        """A sentence when nothing may run here; else empty."""
        return self._refusal

    def _work(self) -> None:
        pause = self._first_after_seconds
        while not self._stopped.wait(pause):
            pause = _AGAIN_AFTER_SECONDS
            failed = self._failed()
            # A busy host can make a proof miss its time: twice in a row is no accident.
            if failed:
                names = {finding.name for finding in failed}
                failed = [again for again in self._failed() if again.name in names]
            if self._stopped.is_set():
                return
            self._refusal = _refusal_for(failed)
            for finding in failed:
                _proof_log.error("%s %s %s", finding.text, finding.why, finding.mend)
            if not failed:
                _proof_log.info("every limit of the sandboxes is proven")
                return

    def _failed(self) -> list[Finding]:
        findings = prove_limits(self._runner, self._cancel)
        return reasons_to_refuse(findings, self._accepted)


def _refusal_for(failed: list[Finding]) -> str:
    if not failed:
        return ""
    names = ", ".join(finding.name for finding in failed)
    return (
        f"Code is not run here, because a limit of the sandboxes does not hold ({names}). Ask "
        "your administrator to run the check: the server's log says what is wrong."
    )
