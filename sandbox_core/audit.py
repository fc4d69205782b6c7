"""One line of JSON for each run: who ran what, how it ended, and what it cost.

The code itself is not in it, only its hash: it may hold what a person pasted in trust.
"""

import hashlib
import json
import logging
import time
from typing import Any

from sandbox_core.egress import NETWORK, NO_NETWORK
from sandbox_core.models import KeptText, RunRequest, RunResult

__all__ = ["audit_record", "write_audit_line"]

_audit_log = logging.getLogger("run_code.audit")


def audit_record(
    request: RunRequest, result: RunResult, with_code: bool = False, **facts: Any
) -> dict[str, Any]:
    """The values of the line. Sizes are in bytes, times in seconds; ``facts`` are added."""
    code = "\0".join(step.code for step in request.steps)
    record = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "run": request.run_id,
        "user": request.user,
        "chat": request.chat,
        "languages": [step.language for step in request.steps],
        "outcome": str(result.outcome),
        "exit_code": result.shell_exit_code,
        "code_sha256": hashlib.sha256(code.encode("utf-8", "replace")).hexdigest(),
        "code_bytes": sum(
            len(step.code.encode("utf-8", "replace")) for step in request.steps
        ),
        "stdin_bytes": len(request.stdin),
        "files_in": len(request.files),
        "bytes_in": sum(file.size for file in request.files),
        "stdout_bytes": _size(result.stdout),
        "stderr_bytes": _size(result.stderr),
        "files_out": len(result.files),
        "bytes_out": sum(file.size for file in result.files),
        "seconds": round(result.seconds, 3),
        "total_seconds": round(result.total_seconds, 3),
        "image": result.evidence.get("image", ""),
        "network": result.evidence.get(NETWORK, NO_NETWORK),
        **facts,
    }
    if with_code:
        record["code"] = [step.code for step in request.steps]
    return record


def write_audit_line(record: dict[str, Any]) -> None:
    """Log the record as one line, at level INFO, to the logger ``run_code.audit``."""
    _audit_log.info("%s", json.dumps(record, ensure_ascii=True))


def _size(text: KeptText) -> int:
    kept = text.head.encode("utf-8", "replace") + text.tail.encode("utf-8", "replace")
    return len(kept) + text.omitted
