"""The example of a ``.env`` file, made from the settings themselves."""

import textwrap
from typing import Any

from codebox.settings import Settings, image_variables, variable_of

__all__ = ["example_file"]

_WIDTH = 88


def example_file() -> str:
    """Each variable with its meaning and default, commented out. Printed by the command line
    and kept as ``.env.example``."""
    parts = ["# Settings of codebox. Remove the # before those that you change.\n"]
    for name, setting in Settings.model_fields.items():
        if name == "images":
            continue
        default = "" if setting.is_required() else _text(setting.default)
        parts.append(_entry(variable_of(name), default, setting.description or ""))
    parts.append(
        _entry("CODEBOX_SECRET_FILE", "", "A file with the secret, instead of it.")
    )
    for language, variable in image_variables().items():
        parts.append(_entry(variable, "", f"Image for {language}, if it has its own."))
    return "\n".join(parts)


def _entry(variable: str, default: str, description: str) -> str:
    lines = textwrap.wrap(
        description, _WIDTH, initial_indent="# ", subsequent_indent="# "
    )
    return "\n".join([*lines, f"#{variable}={default}", ""])


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if repr(value) == "SecretStr('')" else str(value)
