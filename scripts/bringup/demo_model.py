"""A stand-in for a language model, so that a newcomer can try the plugins at once.

It is not an AI: it looks for a few words in the question and answers with prepared text
and code, calls the tool when asked to, and quotes the output of earlier runs.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .openai_server import (
    OpenAIServer,
    Reply,
    ToolCall,
    last_user_text,
    text_of,
)

__all__ = ["MODEL_NAME", "decide", "main"]

MODEL_NAME = "demo-model (not an AI)"
_TOOL_NAME = "run_code"
_SECONDS_PER_CHUNK = 0.03


@dataclass(frozen=True)
class Block:
    """One prepared code block."""

    language: str
    code: str

    def fenced(self) -> str:
        """The block as Markdown."""
        return f"```{self.language}\n{self.code}\n```"


_PRIMES = Block(
    "python",
    """\
def primes(limit):
    sieve = [True] * (limit + 1)
    for n in range(2, int(limit**0.5) + 1):
        if sieve[n]:
            sieve[n * n :: n] = [False] * len(sieve[n * n :: n])
    return [n for n in range(2, limit + 1) if sieve[n]]


found = primes(100)
print(len(found), "primes up to 100:")
print(*found)""",
)
_PLOT = Block(
    "python",
    """\
import matplotlib.pyplot as plt
import numpy as np

x = np.linspace(0, 2 * np.pi, 200)
plt.plot(x, np.sin(x), label="sine")
plt.plot(x, np.cos(x), label="cosine")
plt.legend()
plt.title("Two waves")
plt.savefig("waves.png")
print("highest point of the sine:", np.sin(x).max().round(3))""",
)
_CSV = Block(
    "python",
    """\
import csv
import io
from statistics import mean

table = io.StringIO("city,degrees\\nOslo,4\\nRome,17\\nCairo,28\\n")
rows = list(csv.DictReader(table))
for row in sorted(rows, key=lambda row: float(row["degrees"])):
    print(f"{row['city']:8}{row['degrees']:>4}")
print("mean:", round(mean(float(row["degrees"]) for row in rows), 2))""",
)
_BASH = Block(
    "bash",
    """\
echo "kernel: $(uname -sr)"
echo "user:   $(id -un)"
for n in 1 2 3; do echo "line $n" >> notes.txt; done
wc -l notes.txt""",
)
_HELLO = Block(
    "python",
    """\
import platform

print("Hello from Python", platform.python_version())
for n in range(1, 6):
    print(n, "squared is", n * n)""",
)
_SEVERAL = (
    Block("bash", "seq 1 5 > numbers.txt && cat numbers.txt"),
    Block("python", 'print("sum:", sum(int(line) for line in open("numbers.txt")))'),
    Block("python", 'print("lines:", len(open("numbers.txt").readlines()))'),
)

# Looked through in this order; the last entry matches everything.
_ANSWERS: tuple[tuple[str, str, tuple[Block, ...]], ...] = (
    (r"several|blocks|steps", "Three blocks, one after the other:", _SEVERAL),
    (r"plot|chart|graph|draw", "Here is a small plot:", (_PLOT,)),
    (r"prime", "The sieve of Eratosthenes:", (_PRIMES,)),
    (r"csv|table|mean|average", "Reading a small table:", (_CSV,)),
    (r"bash|shell|linux", "A few shell commands:", (_BASH,)),
    (r"", "A first program:", (_HELLO,)),
)
_ASKS_FOR_TOOL = re.compile(r"\b(tool|yourself|run_code|call)\b", re.IGNORECASE)
_ASKS_FOR_OUTPUT = re.compile(
    r"\b(output|outcome|result|printed?|what (happened|came out))\b", re.IGNORECASE
)
_FENCE = re.compile(
    r"^(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_OUTPUT_LABELS = {"", "text", "output", "console"}
_TASK_ANSWER = '{"title": "Run code demo", "tags": [], "follow_ups": [], "queries": []}'
_HINT = (
    "\n\nPress **Run code** below this answer. Ask me for *primes*, a *plot*, a *csv*, "
    "*bash* or *several blocks*; ask me to *use the tool*; or ask *what was the output?*"
)


def decide(body: Mapping[str, Any]) -> Reply:
    """Choose the answer to one chat completion request."""
    messages = body.get("messages", [])
    question = last_user_text(body)
    if question.lstrip().startswith("### Task:"):
        return Reply(_TASK_ANSWER)  # Open WebUI asks for a title, tags and the like
    if messages and messages[-1].get("role") == "tool":
        return _say("The tool answered:\n\n" + _quote(text_of(messages[-1]["content"])))
    introduction, blocks = _prepared(question)
    if _ASKS_FOR_TOOL.search(question) and _offers_tool(body):
        block = blocks[0]
        arguments = {"code": block.code, "language": block.language}
        return Reply(tool_calls=(ToolCall(_TOOL_NAME, arguments),))
    if _ASKS_FOR_OUTPUT.search(question):
        return _say(_earlier_output(messages))
    return _say("\n\n".join([introduction, *(b.fenced() for b in blocks)]) + _HINT)


def _say(text: str) -> Reply:
    return Reply(text, chunk_delay=_SECONDS_PER_CHUNK)


def _prepared(question: str) -> tuple[str, tuple[Block, ...]]:
    return next(
        (introduction, blocks)
        for pattern, introduction, blocks in _ANSWERS
        if re.search(pattern, question, re.IGNORECASE)
    )


def _offers_tool(body: Mapping[str, Any]) -> bool:
    return any(
        tool.get("function", {}).get("name") == _TOOL_NAME
        for tool in body.get("tools") or []
    )


def _earlier_output(messages: Sequence[Mapping[str, Any]]) -> str:
    for message in reversed(messages):
        text = text_of(message.get("content"))
        if message.get("role") == "tool":
            return "The last run answered:\n\n" + _quote(text)
        outputs = [
            match["body"]
            for match in _FENCE.finditer(text)
            if match["info"].strip().lower() in _OUTPUT_LABELS
        ]
        if message.get("role") == "assistant" and outputs:
            return "The output of the last run was:\n\n" + _quote(outputs[-1])
    return "I see no output of a run in this chat yet: press **Run code** first."


def _quote(text: str) -> str:
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text.rstrip()}\n{fence}"


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point: serve until interrupted."""
    parser = argparse.ArgumentParser(description="A demo model; it is not an AI.")
    parser.add_argument("--port", type=int, default=11435, help="port of 127.0.0.1")
    server = OpenAIServer(decide, [MODEL_NAME], parser.parse_args(argv).port)
    print(f"{MODEL_NAME} serves {server.url}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        return 130
    return 0
