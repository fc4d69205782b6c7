"""Links like ``sandbox:/mnt/data/chart.png`` in an answer, made to lead to the stored file.

Models write them because they know a sandbox with that folder. A browser can do nothing with
them. Pure functions.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from owui_plugin.output_items import is_result_item

__all__ = ["resolve_links", "resolve_links_in_items"]

_WORK_LINK = re.compile(
    r"(?P<start>!?\[[^\]\n]*\]\(\s*)"
    r"(?P<target><?(?:sandbox:)?/mnt/data/(?:[^()\n]|\([^()\n]*\))*?)"
    r'(?P<end>(?:\s+"[^"\n]*")?\s*\))'
)
_PREFIX = re.compile(r"^<?(?:sandbox:)?/mnt/data/")
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})", re.MULTILINE)


def resolve_links(markdown: str, addresses: Mapping[str, str]) -> str:
    """The text with each link to a file of the work folder replaced by that file's address.

    ``addresses``: by name in the work folder. Links to other files, and code blocks, stay.
    """
    if not addresses or "/mnt/data/" not in markdown:
        return markdown
    lines, mark = [], ""
    for line in markdown.split("\n"):
        fence = _FENCE.match(line)
        if fence and not mark:
            mark = fence["mark"]
        elif fence and _closes(line, fence["mark"], mark):
            mark = ""
        elif not mark:
            line = _WORK_LINK.sub(lambda link: _resolved(link, addresses), line)
        lines.append(line)
    return "\n".join(lines)


def resolve_links_in_items(output: Any, addresses: Mapping[str, str]) -> Any:
    """The ``output`` list of a message with such links of its answer resolved."""
    if not isinstance(output, list):
        return output
    return [_with_resolved_links(item, addresses) for item in output]


def _with_resolved_links(item: Any, addresses: Mapping[str, str]) -> Any:
    if (
        not isinstance(item, dict)
        or item.get("type") != "message"
        or is_result_item(item)
        or not isinstance(item.get("content"), list)
    ):
        return item
    parts = [
        (
            {**part, "text": resolve_links(part["text"], addresses)}
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else part
        )
        for part in item["content"]
    ]
    return {**item, "content": parts}


def _closes(line: str, fence: str, mark: str) -> bool:
    bare = not line.strip().strip(fence[0])
    return bare and fence[0] == mark[0] and len(fence) >= len(mark)


def _resolved(link: re.Match[str], addresses: Mapping[str, str]) -> str:
    name = _PREFIX.sub("", link["target"]).removesuffix(">")
    address = addresses.get(name) or addresses.get(unquote(name))
    return f"{link['start']}{address}{link['end']}" if address else link[0]
