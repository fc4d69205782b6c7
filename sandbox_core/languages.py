"""The languages that a sandbox can run: one record each.

The same record feeds the block parser, the tool's enum, the doctor, the docs and the tests.
"""

import re
from dataclasses import dataclass

from sandbox_core.errors import InvalidRequest

__all__ = ["LANGUAGES", "Language", "SelfTest", "find_language", "language_named"]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A program and exactly what it must print to stdout."""

    code: str
    expected_stdout: str


@dataclass(frozen=True, slots=True)
class Language:
    """How one language is recognised, written to a file, and run.

    ``argv`` is the command before the file name. ``joins``: consecutive blocks are joined
    into one program, as a reader expects of an interpreted language. ``transcripts`` are the
    fence words whose blocks hold prompts and output; ``prompts`` finds a prompted line there
    (group 1 is the command) and ``continuation`` its following lines. ``line_reference``
    finds the program's own line numbers (group 1) in its error output. A file with
    ``module_pattern`` in its code is named ``module_file_name`` instead.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    file_name: str
    argv: tuple[str, ...]
    version_argv: tuple[str, ...]
    self_test: SelfTest
    joins: bool = True
    launched: bool = False
    interpreters: tuple[str, ...] = ()
    transcripts: tuple[str, ...] = ()
    prompts: str = ""
    continuation: str = ""
    line_reference: str = ""
    module_file_name: str = ""
    module_pattern: str = ""

    def file_for(self, code: str) -> str:
        """Name of the file that holds this code, relative to the work folder."""
        if self.module_pattern and re.search(self.module_pattern, code, re.MULTILINE):
            return self.module_file_name
        return self.file_name


PYTHON = Language(
    name="python",
    title="Python",
    aliases=("py", "python3", "py3", "ipython", "ipython3"),
    file_name="main.py",
    argv=("python3",),
    version_argv=("python3", "--version"),
    self_test=SelfTest("print(sum(range(10)))\n", "45\n"),
    launched=True,
    interpreters=("python", "python3"),
    transcripts=("pycon", "python-console", "python-repl"),
    prompts=r"^>>> ?(.*)$",
    continuation=r"^\.\.\.(?: (.*))?$",
    line_reference=r'File "[^"\n]*/main\.py", line (\d+)',
)

BASH = Language(
    name="bash",
    title="Bash",
    aliases=("sh", "shell", "zsh", "dash", "ksh"),
    file_name="main.sh",
    argv=("bash",),
    version_argv=("bash", "--version"),
    self_test=SelfTest('for i in 1 2 3; do printf "%s-" "$i"; done; echo\n', "1-2-3-\n"),
    interpreters=("bash", "sh", "dash", "zsh", "ksh"),
    transcripts=("console", "shell-session", "shellsession", "sh-session", "bash-session"),
    prompts=r"^(?:[\w.-]+@[\w.-]+:[^\s$#%]*|\([^)\n]*\) ?)?[$%#] (.*)$",
    continuation=r"^> (.*)$",
    line_reference=r"main\.sh: line (\d+)",
)

JAVASCRIPT = Language(
    name="javascript",
    title="JavaScript (node)",
    aliases=("js", "node", "nodejs", "mjs", "cjs"),
    file_name="main.js",
    argv=("node",),
    version_argv=("node", "--version"),
    self_test=SelfTest("console.log([1, 2, 3].map((x) => x * x).join(' '));\n", "1 4 9\n"),
    interpreters=("node", "nodejs"),
    line_reference=r"main\.m?js:(\d+)",
    module_file_name="main.mjs",
    module_pattern=r"^\s*(?:import\s+[\w*{'\"]|export\s+[\w*{]|(?:const|let|var)\s.*=\s*await\s|await\s)",
)

LANGUAGES = (PYTHON, BASH, JAVASCRIPT)

_BY_WORD = {
    word: language
    for language in LANGUAGES
    for word in (language.name, *language.aliases)
}
_VERSIONED = re.compile(r"([a-z]+)\d+(?:\.\d+)*")


def find_language(word: str) -> Language | None:
    """The language that a fence word or alias means, case-blind; None when there is none.

    A version after the word is fine (``python3.12``); a longer word is not (``pythonic``).
    """
    lowered = word.strip().lower()
    if lowered in _BY_WORD:
        return _BY_WORD[lowered]
    versioned = _VERSIONED.fullmatch(lowered)
    return _BY_WORD.get(versioned[1]) if versioned else None


def language_named(word: str) -> Language:
    """As find_language, but raises InvalidRequest, naming what there is, when unknown."""
    language = find_language(word)
    if language is None:
        names = ", ".join(entry.name for entry in LANGUAGES)
        raise InvalidRequest(f"There is no language “{word[:40]}” here. Use one of: {names}.")
    return language
