"""Text from a program with what hides or turns other text made visible."""

import re

from sandbox_core.models import KeptText
from sandbox_core.streams import clean_text

__all__ = ["visible_kept", "visible_text"]

# Characters that turn the text around them, hide in it, or end a line for some readers.
_DECEPTIVE = re.compile("[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible_text(text: str) -> str:
    """Cleaned text with deceptive characters written out, as ``\\u202e``."""
    text = clean_text(text).replace("\r", "\n")
    return _DECEPTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible_kept(text: KeptText) -> KeptText:
    """As visible_text, for both ends of a kept text."""
    return KeptText(visible_text(text.head), visible_text(text.tail), text.omitted)
