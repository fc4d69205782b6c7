"""The languages that need no compiler: one record each, see Language."""

from sandbox_core.images import FULL_IMAGE, SLIM_IMAGE
from sandbox_core.language import Language, SelfTest, Variant

__all__ = [
    "BASH",
    "JAVASCRIPT",
    "LUA",
    "PERL",
    "PHP",
    "PYTHON",
    "RUBY",
    "R_LANGUAGE",
    "SQL",
    "TYPESCRIPT",
]

# At the left margin only: `await` inside a function says nothing about the file.
_AWAIT = r"^(?:(?:const|let|var)\s[^\n]*=\s*await\s|await\s|for\s+await\s*\()"

# Programs over C's own output hold it back when it goes into a pipe.
_BY_LINE = ("stdbuf", "-oL")
_ESBUILD = (
    "esbuild",
    "{source}",
    "--bundle",
    "--platform=node",
    "--packages=external",
    "--sourcemap=inline",
    "--log-level=warning",
    "--color=false",
)

PYTHON = Language(
    name="python",
    title="Python",
    aliases=("py", "python3", "py3", "ipython", "ipython3"),
    file_name="main.py",
    argv=("python3", "{source}"),
    version_argv=("python3", "--version"),
    self_test=SelfTest("print(sum(range(10)))\n", "45\n"),
    image=SLIM_IMAGE,
    version="3.11",
    # A file of its own (`__future__` imports must come first in it), or an excerpt that
    # would become part of whatever is before it.
    alone_pattern=r"^from __future__ import|\A(?:[ \t]*\n)*[ \t]+\S",
    launched=True,
    waiting="python",
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
    argv=("bash", "{source}"),
    version_argv=("bash", "--version"),
    self_test=SelfTest(
        'for i in 1 2 3; do printf "%s-" "$i"; done; echo\n', "1-2-3-\n"
    ),
    image=SLIM_IMAGE,
    version="5.2",
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
    argv=("node", "{source}"),
    version_argv=("node", "--version"),
    self_test=SelfTest(
        "console.log([1, 2, 3].map((x) => x * x).join(' '));\n", "1 4 9\n"
    ),
    image=SLIM_IMAGE,
    version="18",
    waiting="node",
    interpreters=("node", "nodejs"),
    line_reference=r"main\.m?js:(\d+)",
    variant=Variant(
        r"^(?:import\s*[*{'\"]|import\s+\w|export\s*[*{]|export\s+\w)|" + _AWAIT,
        file_name="main.mjs",
    ),
)

TYPESCRIPT = Language(
    name="typescript",
    title="TypeScript (node)",
    aliases=("ts", "mts", "cts"),
    file_name="main.ts",
    # Bundled, so that a program may import other files of its folder. Types are not checked.
    compile_argv=(*_ESBUILD, "--format=cjs", "--outfile={build}/main.cjs"),
    argv=("node", "--enable-source-maps", "{build}/main.cjs"),
    version_argv=("esbuild", "--version"),
    self_test=SelfTest(
        "const squares: number[] = [1, 2, 3].map((x: number) => x * x);\n"
        "console.log(squares.join(' '));\n",
        "1 4 9\n",
    ),
    image=FULL_IMAGE,
    version="0.17",
    line_reference=r"main\.m?ts:(\d+)",
    variant=Variant(
        _AWAIT + r"|\bimport\.meta\b",
        file_name="main.mts",
        compile_argv=(*_ESBUILD, "--format=esm", "--outfile={build}/main.mjs"),
        argv=("node", "--enable-source-maps", "{build}/main.mjs"),
    ),
)

RUBY = Language(
    name="ruby",
    title="Ruby",
    aliases=("rb", "irb"),
    file_name="main.rb",
    # Output must not wait in Ruby's own buffer, and there is no switch for that.
    argv=("ruby", "-e", "$stdout.sync = true; load($0 = ARGV.shift)", "{source}"),
    version_argv=("ruby", "--version"),
    self_test=SelfTest("puts (1..4).map { |x| x * x }.sum\n", "30\n"),
    image=FULL_IMAGE,
    version="3.1",
    interpreters=("ruby",),
    line_reference=r"main\.rb:(\d+)",
)

PHP = Language(
    name="php",
    title="PHP",
    aliases=(),
    file_name="main.php",
    argv=("php", "{source}"),
    version_argv=("php", "--version"),
    self_test=SelfTest("<?php\necho array_sum([1, 2, 3]), PHP_EOL;\n", "6\n"),
    image=FULL_IMAGE,
    version="8.2",
    # Each block has its own opening tag.
    joins=False,
    interpreters=("php",),
    line_reference=r"main\.php(?::| on line )(\d+)",
    # Without any tag it is meant as code all the same, and not as text to print.
    variant=Variant(
        r"\A(?![\s\S]*<\?)",
        argv=("php", "-r", "eval(file_get_contents($argv[1]));", "{source}"),
    ),
)

PERL = Language(
    name="perl",
    title="Perl",
    aliases=("pl",),
    file_name="main.pl",
    argv=("perl", "-Mvars;$|=1", "{source}"),
    version_argv=("perl", "--version"),
    self_test=SelfTest('my $n = 0; $n += $_ for 1 .. 4; print "$n\\n";\n', "10\n"),
    image=SLIM_IMAGE,
    version="5.36",
    interpreters=("perl",),
    line_reference=r"main\.pl line (\d+)",
)

LUA = Language(
    name="lua",
    title="Lua",
    aliases=("luajit",),
    file_name="main.lua",
    argv=(*_BY_LINE, "lua", "{source}"),
    version_argv=("lua", "-v"),
    self_test=SelfTest("print(6 * 7)\n", "42\n"),
    image=FULL_IMAGE,
    version="5.4",
    interpreters=("lua", "luajit"),
    line_reference=r"main\.lua:(\d+)",
)

R_LANGUAGE = Language(
    name="r",
    title="R",
    aliases=("rscript", "rlang"),
    file_name="main.R",
    argv=("Rscript", "--vanilla", "{source}"),
    version_argv=("Rscript", "--version"),
    self_test=SelfTest('cat(mean(c(1, 2, 6)), "\\n", sep = "")\n', "3\n"),
    image=FULL_IMAGE,
    version="4.2",
    interpreters=("rscript",),
    line_reference=r"main\.R:(\d+)",
)

SQL = Language(
    name="sql",
    title="SQL (SQLite)",
    aliases=("sqlite", "sqlite3"),
    file_name="main.sql",
    argv=(
        *_BY_LINE,
        "sqlite3",
        "-batch",
        "-bail",
        "-box",
        ":memory:",
        ".read {source}",
    ),
    version_argv=("sqlite3", "--version"),
    self_test=SelfTest(
        "CREATE TABLE t (n INT);\nINSERT INTO t VALUES (1), (2);\n"
        "SELECT sum(n) AS total FROM t;\n",
        "┌───────┐\n│ total │\n├───────┤\n│ 3     │\n└───────┘\n",
    ),
    image=SLIM_IMAGE,
    version="3.40",
    line_reference=r"near line (\d+)",
)
