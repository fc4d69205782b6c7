"""What is known of one language: how it is recognised, written to a file, compiled and run."""

import re
from dataclasses import dataclass

__all__ = ["Command", "Language", "SelfTest", "Variant"]


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A program and exactly what it must print to stdout."""

    code: str
    expected_stdout: str


@dataclass(frozen=True, slots=True)
class Variant:
    """How programs in which ``pattern`` is found differ; what is empty does not."""

    pattern: str
    file_name: str = ""
    compile_argv: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """What the sandbox starts for one program. ``compile_argv`` is empty where nothing is
    compiled; ``needs`` is the program without which none of it works."""

    compile_argv: tuple[str, ...]
    argv: tuple[str, ...]
    needs: str


@dataclass(frozen=True, slots=True)
class Language:
    """How one language is recognised, written to a file, compiled and run.

    In ``argv`` and ``compile_argv``, ``{source}`` is the path of the program's file, ``{build}``
    that of a folder for what a compiler makes, and ``{entry}`` the class to start, by
    ``entry_patterns`` (group 1 of the first that is found) and ``package_pattern``.
    ``version_argv`` tells the version, and its first word is what an image must have;
    ``image`` names the smallest of our images that has it, where the version begins with
    ``version``.
    ``waiting`` names the interpreter of a warm sandbox that can run it, see SandboxSpec.
    ``joins``: consecutive blocks are joined into one program, as a reader expects of an
    interpreted language; a block in which ``alone_pattern`` is found is joined to nothing
    before it. ``interpreters`` are the program names that may stand in a ``#!`` line.
    ``transcripts`` are the fence words whose blocks hold prompts and output; ``prompts`` finds
    a prompted line there (group 1 is the command) and ``continuation`` its following lines
    (group 1 likewise); ``here_documents``: a command may go on until the word that it names
    after ``<<``. ``line_reference`` finds the program's own line numbers (group 1) in its
    error output and in the compiler's. ``file_pattern``: group 1 of it names the file.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    file_name: str
    argv: tuple[str, ...]
    version_argv: tuple[str, ...]
    self_test: SelfTest
    image: str
    version: str
    compile_argv: tuple[str, ...] = ()
    joins: bool = True
    alone_pattern: str = ""
    launched: bool = False
    waiting: str = ""
    interpreters: tuple[str, ...] = ()
    transcripts: tuple[str, ...] = ()
    prompts: str = ""
    continuation: str = ""
    here_documents: bool = False
    line_reference: str = ""
    file_pattern: str = ""
    entry_patterns: tuple[str, ...] = ()
    package_pattern: str = ""
    variant: Variant | None = None

    def file_for(self, code: str) -> str:
        """Name of the file that holds this code, relative to the work folder."""
        variant = self._variant_of(code)
        if variant and variant.file_name:
            return variant.file_name
        named = _first_group((self.file_pattern,), code)
        return (
            named + self.file_name[self.file_name.rindex(".") :]
            if named
            else self.file_name
        )

    def command_for(self, code: str, source: str, build: str) -> Command:
        """The command for this code in the file ``source``, both paths in the sandbox."""
        variant = self._variant_of(code)
        argv, compile_argv = self.argv, self.compile_argv
        if variant:
            argv = variant.argv or argv
            compile_argv = variant.compile_argv or compile_argv
        entry = self._entry_of(code)

        def filled(parts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(
                part.replace("{source}", source)
                .replace("{build}", build)
                .replace("{entry}", entry)
                for part in parts
            )

        return Command(filled(compile_argv), filled(argv), self.version_argv[0])

    def _entry_of(self, code: str) -> str:
        package = _first_group((self.package_pattern,), code)
        entry = _first_group(self.entry_patterns, code)
        return ".".join(filter(None, (package, entry)))

    def _variant_of(self, code: str) -> Variant | None:
        found = self.variant and re.search(self.variant.pattern, code, re.MULTILINE)
        return self.variant if found else None


def _first_group(patterns: tuple[str, ...], code: str) -> str:
    """Group 1 of the first pattern that is found; empty when none is."""
    for pattern in patterns:
        found = re.search(pattern, code, re.MULTILINE) if pattern else None
        if found:
            return str(found[1])
    return ""
