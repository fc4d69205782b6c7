"""The languages that are compiled before they run: one record each, see Language.

Compilers optimise little: a program of a chat runs once, and most of the time is theirs.
"""

from sandbox_core.images import FULL_IMAGE
from sandbox_core.language import Language, SelfTest

__all__ = ["CPP", "C_LANGUAGE", "GO", "JAVA", "KOTLIN", "RUST"]

_BY_LINE_OF_C = ("stdbuf", "-oL")
# One thread for garbage and one compiler: a JVM starts in half the time, and fits.
_SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

_JAVA_TYPE = r"(?:(?:public|final|abstract|sealed|strictfp)\s+)*(?:class|interface|enum|record)\s+"

C_LANGUAGE = Language(
    name="c",
    title="C",
    aliases=("gcc",),
    file_name="main.c",
    compile_argv=("gcc", "-O1", "-pthread", "-o", "{build}/main", "{source}", "-lm"),
    argv=(*_BY_LINE_OF_C, "{build}/main"),
    version_argv=("gcc", "--version"),
    self_test=SelfTest(
        "#include <stdio.h>\n#include <math.h>\n"
        'int main(void) { printf("%.1f\\n", sqrt(20.25)); return 0; }\n',
        "4.5\n",
    ),
    image=FULL_IMAGE,
    version="12.2",
    joins=False,
    line_reference=r"main\.c:(\d+)",
)

CPP = Language(
    name="cpp",
    title="C++",
    aliases=("c++", "cxx", "cc", "hpp", "g++"),
    file_name="main.cpp",
    compile_argv=(
        "g++",
        "-std=gnu++20",
        "-O1",
        "-pthread",
        "-o",
        "{build}/main",
        "{source}",
    ),
    argv=(*_BY_LINE_OF_C, "{build}/main"),
    version_argv=("g++", "--version"),
    self_test=SelfTest(
        "#include <iostream>\n#include <numeric>\n#include <vector>\n"
        "int main() {\n  std::vector<int> v{1, 2, 3};\n"
        "  std::cout << std::accumulate(v.begin(), v.end(), 0) << std::endl;\n}\n",
        "6\n",
    ),
    image=FULL_IMAGE,
    version="12.2",
    joins=False,
    line_reference=r"main\.cpp:(\d+)",
)

GO = Language(
    name="go",
    title="Go",
    aliases=("golang",),
    file_name="main.go",
    compile_argv=("go", "build", "-o", "{build}/main", "{source}"),
    argv=("{build}/main",),
    version_argv=("go", "version"),
    self_test=SelfTest(
        'package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println(1 << 10)\n}\n',
        "1024\n",
    ),
    image=FULL_IMAGE,
    version="1.19",
    joins=False,
    line_reference=r"main\.go:(\d+)",
)

RUST = Language(
    name="rust",
    title="Rust",
    aliases=("rs",),
    file_name="main.rs",
    compile_argv=(
        "rustc",
        "--edition=2021",
        "-Copt-level=1",
        "-o",
        "{build}/main",
        "{source}",
    ),
    argv=("{build}/main",),
    version_argv=("rustc", "--version"),
    self_test=SelfTest(
        'fn main() {\n    let n: u32 = (1..=4).product();\n    println!("{}", n);\n}\n',
        "24\n",
    ),
    image=FULL_IMAGE,
    version="1.63",
    joins=False,
    line_reference=r"main\.rs:(\d+)",
)

JAVA = Language(
    name="java",
    title="Java",
    aliases=("jdk",),
    file_name="main.java",
    compile_argv=(
        "javac",
        *(f"-J{option}" for option in _SMALL_JVM),
        "-encoding",
        "UTF-8",
        "-d",
        "{build}",
        "{source}",
    ),
    argv=("java", *_SMALL_JVM, "-XX:MaxRAMPercentage=40", "-cp", "{build}", "{entry}"),
    version_argv=("javac", "--version"),
    self_test=SelfTest(
        "record Pair(int a, int b) {}\n\npublic class Sum {\n"
        "    public static void main(String[] args) {\n"
        "        var pair = new Pair(40, 2);\n"
        "        System.out.println(pair.a() + pair.b());\n    }\n}\n",
        "42\n",
    ),
    image=FULL_IMAGE,
    version="17",
    joins=False,
    line_reference=r"\w+\.java:(\d+)",
    # The compiler wants a public class in a file of its name.
    file_pattern=r"^public\s+" + _JAVA_TYPE + r"(\w+)",
    # The type with the main method; else the first.
    entry_patterns=(
        rf"^{_JAVA_TYPE}(\w+)(?:(?!^{_JAVA_TYPE})[\s\S])*?\bstatic\s+(?:final\s+)?void\s+main\b",
        rf"^{_JAVA_TYPE}(\w+)",
    ),
    package_pattern=r"^\s*package\s+([\w.]+)\s*;",
)

KOTLIN = Language(
    name="kotlin",
    title="Kotlin",
    aliases=("kt", "kts"),
    file_name="main.kt",
    compile_argv=(
        "kotlinc",
        *(f"-J{option}" for option in _SMALL_JVM),
        "-nowarn",
        "-include-runtime",
        "-d",
        "{build}/main.jar",
        "{source}",
    ),
    argv=("java", *_SMALL_JVM, "-XX:MaxRAMPercentage=40", "-jar", "{build}/main.jar"),
    version_argv=("kotlinc", "-version"),
    self_test=SelfTest(
        "fun main() {\n    println((1..3).map { it * it })\n}\n", "[1, 4, 9]\n"
    ),
    image=FULL_IMAGE,
    version="1.3",
    joins=False,
    line_reference=r"main\.kt:(\d+)",
)
