"""All languages, in the image that has them: they run, they fail, and the compilers' errors are
told apart."""

import pytest

from sandbox_core.doctor import examine
from sandbox_core.inventory import inventory_request, read_inventory
from sandbox_core.language_records import parse_language_records
from sandbox_core.languages import LANGUAGES, known_languages, use_added_languages
from sandbox_core.outcome import Outcome
from sandbox_core.runner import LocalRunner
from tests.contract.runners import engine_of_built, opened
from tests.contract.runs import contents, describe, run, run_steps

BROKEN = {
    "c": ("int main(void) {\n  return missing;\n}\n", 2),
    "cpp": ("int main() {\n\n  missing();\n}\n", 3),
    "go": ("package main\n\nfunc main() {\n\tmissing()\n}\n", 4),
    "rust": ('fn main() {\n    let x: i32 = "text";\n}\n', 2),
    "java": ("public class Broken {\n    int x = ;\n}\n", 2),
    "typescript": ("const a = 1;\nconst b = = 2;\n", 2),
}
ENDLESS = {
    "c": (
        "#include <stdio.h>\n#include <unistd.h>\n"
        'int main(void) { for (;;) { puts("tick"); sleep(1); } }\n'
    ),
    "lua": 'while true do print("tick") os.execute("sleep 1") end\n',
    "perl": 'while (1) { print "tick\\n"; sleep 1; }\n',
    "php": '<?php while (true) { echo "tick\\n"; sleep(1); }\n',
    "r": 'repeat { cat("tick\\n"); Sys.sleep(1) }\n',
    "ruby": 'loop { puts "tick"; sleep 1 }\n',
}

# The first is in every Debian; the second has a step before it that stands for a compiler.
ADDED = """
[awk]
title = "AWK"
aliases = ["gawk"]
file_name = "main.awk"
run = ["awk", "-f", "{source}"]
version = ["awk", "-W", "version"]
self_test = { code = "BEGIN { print 6 * 7 }", expected_stdout = "42\\n" }

[strict-perl]
title = "Strict Perl"
file_name = "main.spl"
compile = ["sh", "-c", "perl -Mstrict -c $0 && cp $0 {build}/main.pl", "{source}"]
run = ["perl", "-Mstrict", "{build}/main.pl"]
version = ["perl", "-v"]
line_reference = "main.spl line {line}"
self_test = { code = "print 2 + 3", expected_stdout = "5" }

[cobol]
title = "COBOL"
aliases = ["cob"]
file_name = "main.cob"
run = ["cobcrun", "{source}"]
version = ["cobc", "--version"]
image = "my-cobol"
self_test = { code = "", expected_stdout = "" }
"""
AWK = """\
BEGIN {
  while (("printf 'Ann 1\\nBob 5\\nAnn 2\\n'" | getline) > 0) sum[$1] += $2
  print "Ann", sum["Ann"]; print "Bob", sum["Bob"]
}
"""


@pytest.fixture(scope="module")
def runner(docker_host, full_image):
    with opened(engine_of_built(docker_host, full_image), full_image) as runner:
        yield runner


def test_every_language_runs_one_after_another_in_one_sandbox(runner):
    steps = [(entry.name, entry.self_test.code) for entry in LANGUAGES]
    result = run_steps(runner, steps, seconds=120, compile_seconds=300)
    assert result.outcome is Outcome.OK, describe(result)
    expected = "".join(entry.self_test.expected_stdout for entry in LANGUAGES)
    assert str(result.stdout) == expected
    assert contents(result) == {}


def test_the_image_says_what_it_has(runner):
    found = read_inventory(runner.run(inventory_request()))
    assert list(found.languages) == [entry.name for entry in LANGUAGES]
    for entry in LANGUAGES:
        version = found.languages[entry.name]
        assert f"{version}.".startswith(f"{entry.version}."), (entry.name, version)
    assert {"numpy", "pandas"} <= found.packages.keys()


@pytest.mark.parametrize("language", BROKEN)
def test_a_compile_error_is_told_with_its_line(runner, language):
    code, line = BROKEN[language]
    result = run(runner, code, language)
    assert result.outcome is Outcome.COMPILE_ERROR, describe(result)
    assert f"(line {line})" in result.message, describe(result)
    assert result.seconds == 0
    assert str(result.stdout) == ""


def test_a_compiler_has_a_limit_of_its_own(runner):
    code = "fun main() = println(1)\n"
    result = run(runner, code, "kotlin", compile_seconds=1)
    assert result.outcome is Outcome.TIMEOUT, describe(result)
    assert "The compiler was stopped after 1 s" in result.message


def test_a_program_that_crashes_is_no_compile_error(runner):
    code = '#include <stdio.h>\nint main(void) { puts("out"); return *(int *)0; }\n'
    result = run(runner, code, "c")
    assert (result.outcome, result.signal) == (Outcome.FAILED, 11), describe(result)
    assert "SIGSEGV" in result.message
    assert str(result.stdout) == "out\n"


@pytest.mark.parametrize("language", ENDLESS)
def test_r02_what_was_printed_before_a_time_out_is_kept(runner, language):
    result = run(runner, ENDLESS[language], language, seconds=2)
    assert result.outcome is Outcome.TIMEOUT, describe(result)
    assert str(result.stdout).startswith("tick\n"), describe(result)


def test_a_missing_toolchain_says_which_image_has_it(first_engine, image):
    runner = LocalRunner(first_engine, image)
    try:
        result = run_steps(runner, [("bash", "echo here"), ("go", "package main")])
        found = read_inventory(runner.run(inventory_request()))
    finally:
        runner.close()
    assert (result.outcome, result.failed_step) == (Outcome.FAILED, 1)
    assert (
        "there is no Go in this sandbox. The image run-code-full has it"
        in result.message
    )
    assert list(found.languages) == ["python", "bash", "javascript", "perl", "sql"]


def test_languages_that_an_administrator_added(docker_engine, runtime, image):
    use_added_languages(parse_language_records(ADDED))
    runner = LocalRunner(docker_engine, image, runtime)
    try:
        findings = examine(docker_engine, image, runtime, known_languages()[-3:])
        result = run_steps(runner, [("gawk", AWK), ("cob", "nothing"), ("awk", "no")])
        broken = run(runner, "my $a = 1;\nprint $missing;\n", "strict-perl")
    finally:
        runner.close()
        use_added_languages(())
    told = {finding.name: finding for finding in findings}
    assert told["awk"].ok, told["awk"].text
    assert told["strict-perl"].ok, told["strict-perl"].text
    assert told["languages"].text == (
        "Not in this image: COBOL. In the image my-cobol they are."
    )
    assert str(result.stdout) == "Ann 3\nBob 5\n", describe(result)
    assert (result.outcome, result.failed_step) == (Outcome.FAILED, 1)
    assert "there is no COBOL in this sandbox. The image my-cobol has" in result.message
    assert broken.outcome is Outcome.COMPILE_ERROR, describe(broken)
    assert "(line 2)" in broken.message, describe(broken)
