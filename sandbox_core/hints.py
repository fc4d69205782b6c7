"""What to do next after a failure: one table, shared by people and models."""

import re
from dataclasses import dataclass

from sandbox_core.egress import (
    NETWORK,
    NO_NETWORK,
    describe_network,
    reaches_out,
)
from sandbox_core.models import RunResult
from sandbox_core.outcome import Outcome

__all__ = ["PACKAGES_ON", "hint_for"]

# In a result's evidence: packages could have been installed.
PACKAGES_ON = "packages"

# Only the end of the error output tells why a program ended.
_HINT_REACH = 4096


@dataclass(frozen=True, slots=True)
class _Hint:
    pattern: re.Pattern[str]
    sentence: str


def _hint(pattern: str, sentence: str) -> _Hint:
    return _Hint(re.compile(pattern, re.MULTILINE), sentence)


_BY_OUTCOME = {
    Outcome.SANDBOX_ERROR: "Changing the code will not help.",
    Outcome.MEMORY_LIMIT: "Work on less data at a time, or use smaller data types.",
    Outcome.TIMEOUT: "Make the code faster, or let it do less in one run.",
    Outcome.OUTPUT_LIMIT: "Print less, for example only a summary.",
    Outcome.PROCESS_LIMIT: "Start fewer processes and threads at a time.",
    Outcome.DISK_LIMIT: "Write less, or delete files that are no longer needed.",
    Outcome.COMPILE_ERROR: "Correct what the compiler names, the first error first.",
}

_NO_SUCH_PACKAGE = (
    r"^(?:ModuleNotFoundError|ImportError)\b|No matching distribution found"
)
_MAY_INSTALL = re.compile(_NO_SUCH_PACKAGE, re.MULTILINE)
_INSTALL_IT = (
    "Packages can be installed before the program: name it in `packages`, or begin the code "
    "with a line `pip install` (in Python `!pip install`); its name in the index may differ."
)

# Where programs have a network, the proxy or the lack of any other way is what stopped them.
_UNREACHED = re.compile(
    r"Tunnel connection failed|CONNECT tunnel failed|response 403|ERR_ACCESS_DENIED"
    r"|Forbidden|ProxyError|ERR_DNS_FAIL|Service Unavailable"
    r"|Name or service not known|Temporary failure in name resolution|getaddrinfo|EAI_AGAIN"
    r"|Network is unreachable|Connection refused|No route to host|Could not resolve host"
)

_BY_ERROR = (
    _hint(
        r"^EOFError\b|\bread: read error\b",
        "There is no keyboard here: set the value in the code, or give the input "
        "beforehand as stdin.",
    ),
    _hint(
        r"No matching distribution found|Failed to establish a new connection"
        r"|Temporary failure in name resolution|Name or service not known"
        r"|Network is unreachable|Could not resolve host|getaddrinfo|EAI_AGAIN"
        r"|Temporary failure resolving",
        "There is no network in the sandbox, and installing packages is off: use what "
        "is there (`pip list` shows it) and put the data into the code.",
    ),
    _hint(
        r"Cannot find (?:module|package) '(?![./])|\b(?:npm|npx|pnpm|yarn): command not found",
        "Packages of npm are not in the sandbox and cannot be installed: use what Node.js has "
        "by itself, or do it in Python.",
    ),
    _hint(
        r"^(?:ModuleNotFoundError|ImportError)\b",
        "That package is not in the sandbox, and installing packages is off: use one that "
        "is there (`pip list` shows them) or do without.",
    ),
    _hint(
        r"^\s*[!%]\s*\w[^\n]*\n\s*\^[^\n]*\n(?:SyntaxError|IndentationError)\b",
        "Notebook commands (lines with `!` or `%` in front) do not work here: put shell "
        "commands into a Bash block.",
    ),
    _hint(
        r"No such file or directory|ENOENT|Cannot find module '[./]",
        "The work folder holds the files that were given to this run and nothing else: use "
        "their names as they are, or create the file in the same code.",
    ),
    _hint(
        r"command not found",
        "That command is not in the sandbox: use one that is there, or do it in Python.",
    ),
    _hint(
        r"Read-only file system|Permission denied|EROFS|EACCES",
        "Only the work folder and `/tmp` can be written to.",
    ),
    _hint(
        r"^MemoryError\b|heap out of memory|Cannot allocate memory",
        _BY_OUTCOME[Outcome.MEMORY_LIMIT],
    ),
)


def hint_for(result: RunResult) -> str:
    """One sentence of advice, as Markdown, after a run that did not end well; empty when
    all is well or there is nothing to advise. It holds no text of the program."""
    if result.outcome is not Outcome.FAILED:
        return _BY_OUTCOME.get(result.outcome, "")
    end = (result.stderr.head + result.stderr.tail)[-_HINT_REACH:]
    if result.evidence.get(PACKAGES_ON) and _MAY_INSTALL.search(end):
        return _INSTALL_IT
    network = result.evidence.get(NETWORK, NO_NETWORK)
    if reaches_out(network) and _UNREACHED.search(end):
        return (
            f"{describe_network(network)} Use the proxy that the environment names "
            "(`https_proxy`); nothing else leads outside."
        )
    return next((hint.sentence for hint in _BY_ERROR if hint.pattern.search(end)), "")
