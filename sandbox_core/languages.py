"""The languages that a sandbox can run: one record each.

The same record feeds the block parser, the tool's enum, the doctor, the docs and the tests.
"""

import re
from dataclasses import dataclass

from sandbox_core.errors import InvalidRequest

__all__ = [
    "LANGUAGES",
    "PYTHON",
    "Language",
    "SelfTest",
    "find_interpreter",
    "find_language",
    "find_transcript",
    "language_named",
]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A program and exactly what it must print to stdout."""

    code: str
    expected_stdout: str


@dataclass(frozen=True, slots=True)
class Language:
    """How one language is recognised, written to a file, and run.

    ``argv`` is the command before the file name. ``joins``: consecutive blocks are joined
    into one program, as a reader expects of an interpreted language; a block in which
    ``alone_pattern`` is found is joined to nothing before it. ``interpreters`` are the
    program names that may stand in a ``#!`` line. ``transcripts`` are the fence words whose
    blocks hold prompts and output; ``prompts`` finds a prompted line there (group 1 is the
    command) and ``continuation`` its following lines (group 1 likewise);
    ``here_documents``: a command may go on until the word that it names after ``<<``.
    ``line_reference`` finds the program's own line numbers (group 1) in its error output. A
    file with ``module_pattern`` in its code is named ``module_file_name`` instead.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    file_name: str
    argv: tuple[str, ...]
    version_argv: tuple[str, ...]
    self_test: SelfTest
    joins: bool = True
    alone_pattern: str = ""
    launched: bool = False
    interpreters: tuple[str, ...] = ()
    transcripts: tuple[str, ...] = ()
    prompts: str = ""
    continuation: str = ""
    here_documents: bool = False
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
    # A file of its own (`__future__` imports must come first in it), or an excerpt that
    # would become part of whatever is before it.
    alone_pattern=r"^from __future__ import|\A(?:[ \t]*\n)*[ \t]+\S",
    launched=True,
    interpreters=("python", "python3"),
    transcripts=("pycon", "python-console", "python-repl", "doctest"),
    prompts=r"^>>>(?: (.*))?$",
    continuation=r"^\.\.\.(?: (.*))?$",
    line_reference=r'File "[^"\n]*/main\.py", line (\d+)',
)

# A bare "# " is no prompt: it may as well be a comment, and a comment must not run. Root's
# prompt counts where a user, a folder or a shell name stands before it.
_SHELL_PROMPT = (
    r"^(?:\([\w.-]+\) ?)?"
    r"(?:\$"
    r"|[\w.-]+@[\w.-]+:[~/][^$%#>\n]*[$#%]"
    r"|[\w.-]+@[\w.-]+ [\w~/.-]+ [$#%]"
    r"|\[[\w.-]+@[\w.-]+ [^\]\n]*\][$#]"
    r"|(?:ba|z)?sh-[\d.]+[$#])"
    r"(?: (.*))?$"
)

BASH = Language(
    name="bash",
    title="Bash",
    aliases=("sh", "shell", "zsh", "dash", "ksh"),
    file_name="main.sh",
    argv=("bash",),
    version_argv=("bash", "--version"),
    self_test=SelfTest(
        'for i in 1 2 3; do printf "%s-" "$i"; done; echo\n', "1-2-3-\n"
    ),
    interpreters=("bash", "sh", "dash", "zsh", "ksh"),
    transcripts=(
        "console",
        "shell-session",
        "shellsession",
        "sh-session",
        "bash-session",
        "terminal",
    ),
    prompts=_SHELL_PROMPT,
    continuation=r"^>(?: (.*))?$",
    here_documents=True,
    line_reference=r"main\.sh: line (\d+)",
)

JAVASCRIPT = Language(
    name="javascript",
    title="JavaScript (node)",
    aliases=("js", "node", "nodejs", "mjs", "cjs"),
    file_name="main.js",
    argv=("node",),
    version_argv=("node", "--version"),
    self_test=SelfTest(
        "console.log([1, 2, 3].map((x) => x * x).join(' '));\n", "1 4 9\n"
    ),
    interpreters=("node", "nodejs"),
    line_reference=r"main\.m?js:(\d+)",
    module_file_name="main.mjs",
    module_pattern=(
        # At the left margin only: `await` inside a function says nothing about the file.
        r"^(?:import\s*[*{'\"]|import\s+\w|export\s*[*{]|export\s+\w"
        r"|(?:const|let|var)\s[^\n]*=\s*await\s|await\s|for\s+await\s*\()"
    ),
)

LANGUAGES = (PYTHON, BASH, JAVASCRIPT)

_BY_WORD = {
    word: language
    for language in LANGUAGES
    for word in (language.name, *language.aliases)
}
_BY_TRANSCRIPT = {
    word: language for language in LANGUAGES for word in language.transcripts
}
_BY_INTERPRETER = {
    word: language for language in LANGUAGES for word in language.interpreters
}
_VERSIONED = re.compile(r"([a-z]+)\d+(?:\.\d+)*")
_INTERPRETER_LINE = re.compile(
    r"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:(?:-\S+|\w+=\S*)[ \t]+)*(?:\S*/)?)?([^\s/]+)"
)


def find_language(word: str) -> Language | None:
    """The language that a fence word or alias means, case-blind; None when there is none.

    A version after the word is fine (``python3.12``); a longer word is not (``pythonic``).
    """
    return _find_word(_BY_WORD, word)


def find_transcript(word: str) -> Language | None:
    """The language whose prompts a fence word announces (``console``), case-blind."""
    return _BY_TRANSCRIPT.get(word.strip().lower())


def find_interpreter(code: str) -> Language | None:
    """The language of the ``#!`` line that the code begins with; None when there is none
    or its interpreter is not known here."""
    line = _INTERPRETER_LINE.match(code)
    return _find_word(_BY_INTERPRETER, line[1]) if line else None


def language_named(word: str) -> Language:
    """As find_language, but raises InvalidRequest, naming what there is, when unknown."""
    language = find_language(word)
    if language is None:
        names = ", ".join(entry.name for entry in LANGUAGES)
        raise InvalidRequest(
            f"There is no language “{word[:40]}” here. Use one of: {names}."
        )
    return language


def _find_word(table: dict[str, Language], word: str) -> Language | None:
    lowered = word.strip().lower()
    if lowered in table:
        return table[lowered]
    versioned = _VERSIONED.fullmatch(lowered)
    return table.get(versioned[1]) if versioned else None
