"""The service's settings from the environment and a ``.env`` file, all faults told at once."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dotenv import dotenv_values
from pydantic import ValidationError

from codebox.settings import Settings, image_variables, variable_of
from sandbox_core.egress import NO_NETWORK
from sandbox_core.engines.docker import DockerEngine

__all__ = ["SettingsFault", "load_settings"]

_FALSE = ("", "0", "f", "false", "n", "no", "off")


class SettingsFault(Exception):
    """What is wrong with the settings: ``faults`` has one sentence for each variable."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def load_settings(environ: Mapping[str, str], env_file: Path | None = None) -> Settings:
    """The settings of the environment, which wins, and of a ``.env`` file.

    An empty variable counts as unset, but for the secret. Called once, at the start. Raises
    SettingsFault with every fault, none of which repeats a secret.
    """
    stored = dotenv_values(env_file) if env_file else {}
    texts = {name: text for name, text in stored.items() if text} | {
        name: text for name, text in environ.items() if text.strip()
    }
    values: dict[str, Any] = {
        field: texts[variable_of(field)]
        for field in Settings.model_fields
        if field != "images" and variable_of(field) in texts
    }
    values["images"] = {
        language: texts[name]
        for language, name in image_variables().items()
        if name in texts
    }
    faults = list(_secret_from_file(texts, values))
    faults += _faults_together(values)
    values.setdefault("secret", "")
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        faults += [_fault_sentence(entry) for entry in error.errors()]
    if faults:
        raise SettingsFault(faults)
    return settings


def _secret_from_file(
    texts: Mapping[str, str], values: dict[str, Any]
) -> Iterator[str]:
    """A secret may be in a file, as container platforms give it."""
    path = texts.get("CODEBOX_SECRET_FILE")
    if path is None or "secret" in values:
        return
    try:
        values["secret"] = Path(path).read_text("utf-8").strip()
    except (OSError, UnicodeError) as error:
        yield f"CODEBOX_SECRET_FILE: {os.path.basename(path)} cannot be read ({error})."


def _faults_together(values: Mapping[str, Any]) -> Iterator[str]:
    """What no setting can be blamed for alone."""
    if not values.get("secret"):
        yield "CODEBOX_SECRET: it is empty. Set it to a random text."
    elif values["secret"] == values.get("owui_user_jwt_secret"):
        yield "CODEBOX_SECRET: it must not be that of OWUI_USER_JWT_SECRET."
    if values.get("network") == "packages" and not values.get("packages_index"):
        yield "CODEBOX_PACKAGES_INDEX: CODEBOX_NETWORK=packages needs it."
    engine = values.get("container_backend", DockerEngine.name)
    if values.get("network", NO_NETWORK) != NO_NETWORK and engine != DockerEngine.name:
        yield f"CODEBOX_NETWORK: the engine {engine} has no network for it; Docker has."
    sessions = str(values.get("owui_session_tokens", "")).lower() not in _FALSE
    if sessions and "owui_base_url" not in values:
        yield "OWUI_BASE_URL: OWUI_SESSION_TOKENS needs it."


def _fault_sentence(entry: Any) -> str:
    """One fault of pydantic's in words. The value is not shown: it may be a secret."""
    text = str(entry["msg"]).removeprefix("Value error, ")
    return (
        f"{variable_of(str(entry['loc'][0]))}: {text[0].lower()}{text[1:].rstrip('.')}."
    )
