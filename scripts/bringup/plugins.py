"""Install or update both plugins in a running Open WebUI."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rest import OpenWebUI, OpenWebUIError, Refused

__all__ = ["Plugin", "check_rights", "check_version", "install", "plugin_files"]

_ROOT = Path(__file__).resolve().parents[2] / "open-webui"
_EVERYBODY = [
    {"principal_type": "user", "principal_id": "*", "permission": "read"},
]


@dataclass(frozen=True)
class Plugin:
    """One plugin file and where Open WebUI keeps it ("functions" or "tools")."""

    kind: str
    id: str
    text: str
    manifest: Mapping[str, str]

    @property
    def path(self) -> str:
        """Address of this plugin in the REST interface."""
        return f"/api/v1/{self.kind}/id/{self.id}"

    def form(self) -> dict[str, Any]:
        """What the editor in the browser sends to save the plugin."""
        return {
            "id": self.id,
            "name": self.manifest.get("title", self.id),
            "content": self.text,
            "meta": {
                "description": self.manifest.get("description", ""),
                "manifest": dict(self.manifest),
            },
        }


def plugin_files() -> list[Plugin]:
    """The two plugins of this project. Raises OpenWebUIError when one is missing."""
    return [
        _read_plugin("functions", _ROOT / "functions" / "run_code.py"),
        _read_plugin("tools", _ROOT / "tools" / "run_code.py"),
    ]


def _read_plugin(kind: str, file: Path) -> Plugin:
    try:
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise OpenWebUIError(
            f"Cannot read {file} ({error.strerror}): build the plugins first "
            "(scripts/bundle.py)."
        ) from error
    return Plugin(kind, file.stem, text, _frontmatter(text))


def install(
    client: OpenWebUI,
    plugins: Sequence[Plugin],
    *,
    public: bool = True,
    valves: Mapping[str, str] | None = None,
    report: Callable[[str], None] = print,
) -> None:
    """Create or update `plugins` with the rights of the signed-in administrator.

    `valves` are set in each plugin that has a setting of that name; all other settings
    stay as they are. Called by scripts/install_plugins.py and by scripts/up. Raises OpenWebUIError.
    """
    _check_server(client, plugins)
    for plugin in plugins:
        verb = _save(client, plugin, public)
        report(f"{verb} the {_noun(plugin)} {plugin.id!r} ({_state(plugin, public)}).")
    if valves:
        _set_valves(client, plugins, valves, report)
    client.get("/api/models?refresh=true")  # the buttons are part of the model list


def _check_server(client: OpenWebUI, plugins: Sequence[Plugin]) -> None:
    check_version(client, plugins)
    check_rights(client)
    # Only a session token is told the switches; an API key meets them when it saves.
    features = client.get("/api/config").get("features", {})
    for kind in sorted({plugin.kind for plugin in plugins}):
        if features.get(f"enable_{kind}") is False:
            raise OpenWebUIError(
                f"{kind.capitalize()} are switched off on this server: set "
                f"ENABLE_PLUGINS=true and ENABLE_{kind.upper()}=true in its environment "
                "and restart it."
            )


def check_version(client: OpenWebUI, plugins: Sequence[Plugin]) -> None:
    """Raises OpenWebUIError when the server is older than these plugins allow."""
    version = str(client.get("/api/version").get("version", "0"))
    wanted = max(
        (p.manifest.get("required_open_webui_version", "0") for p in plugins),
        key=_version_key,
    )
    if _version_key(version) < _version_key(wanted):
        raise OpenWebUIError(
            f"This is Open WebUI {version}, the plugins need {wanted} or newer: "
            "update Open WebUI."
        )


def check_rights(client: OpenWebUI) -> None:
    """Raises OpenWebUIError when the caller is no administrator."""
    try:
        client.get("/api/v1/users/user/settings")
    except Refused as error:
        raise OpenWebUIError(
            f"Open WebUI does not accept this API key ({error.detail}): create one in "
            "Settings, Account, or use --email and --password."
        ) from error
    try:
        client.get("/api/v1/configs/models")
    except Refused as error:
        raise OpenWebUIError(
            "This account is not an administrator: plugins run as the server, so only an "
            "administrator may install them."
        ) from error


def _save(client: OpenWebUI, plugin: Plugin, public: bool) -> str:
    form = plugin.form()
    if plugin.kind == "tools":
        form["access_grants"] = _EVERYBODY if public else []
    exists = _exists(client, plugin)
    path = f"{plugin.path}/update" if exists else f"/api/v1/{plugin.kind}/create"
    try:
        client.post(path, form)
        _open_up(client, plugin, form)
    except Refused as error:
        raise _save_failed(plugin, error) from error
    return "Updated" if exists else "Installed"


def _exists(client: OpenWebUI, plugin: Plugin) -> bool:
    # The server answers 401 both for "no such plugin" and for "not yours"; the caller is
    # known to be an administrator here.
    try:
        client.get(plugin.path)
    except Refused as error:
        if error.status in (401, 404):
            return False
        raise
    return True


def _open_up(client: OpenWebUI, plugin: Plugin, form: Mapping[str, Any]) -> None:
    if plugin.kind == "tools":  # an update leaves the access rights alone
        grants = {"access_grants": form["access_grants"]}
        client.post(f"{plugin.path}/access/update", grants)
        return
    for flag, switch in (("is_active", "toggle"), ("is_global", "toggle/global")):
        if not client.get(plugin.path)[flag]:
            client.post(f"{plugin.path}/{switch}")


def _save_failed(plugin: Plugin, error: Refused) -> OpenWebUIError:
    if "valves" in error.detail.lower():
        return OpenWebUIError(
            f"The stored settings of the {_noun(plugin)} {plugin.id!r} do not fit this "
            f"version: correct them in the admin panel, then try again. {error.detail}"
        )
    return OpenWebUIError(
        f"Open WebUI could not load the {_noun(plugin)} {plugin.id!r} "
        f"(HTTP {error.status}: {error.detail}): the reason is in the server's log. Often "
        "a package of the plugin's 'requirements:' line could not be installed, or plugins "
        "are switched off (ENABLE_PLUGINS, ENABLE_FUNCTIONS, ENABLE_TOOLS)."
    )


def _set_valves(
    client: OpenWebUI,
    plugins: Sequence[Plugin],
    valves: Mapping[str, str],
    report: Callable[[str], None],
) -> None:
    specs = [
        (client.get(f"{plugin.path}/valves/spec") or {}).get("properties", {})
        for plugin in plugins
    ]
    known = sorted({name for spec in specs for name in spec})
    for name in valves:
        if name not in known:
            raise OpenWebUIError(
                f"There is no setting {name!r}; there are: {', '.join(known)}."
            )
    for plugin, spec in zip(plugins, specs, strict=True):
        chosen = {
            name: _valve_value(text, spec[name])
            for name, text in valves.items()
            if name in spec
        }
        stored = client.get(f"{plugin.path}/valves") or {}
        try:
            client.post(f"{plugin.path}/valves/update", {**stored, **chosen})
        except Refused as error:
            raise OpenWebUIError(
                f"The {_noun(plugin)} does not accept these settings: {error.detail}"
            ) from error
        for name in chosen:
            shown = "(not shown)" if _is_secret(spec[name]) else valves[name]
            report(f"Set {name}={shown} in the {_noun(plugin)}.")


def _valve_value(text: str, spec: Mapping[str, Any]) -> Any:
    if spec.get("type") == "array":
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _is_secret(spec: Mapping[str, Any]) -> bool:
    """Whether Open WebUI's own form hides this setting as it is typed."""
    return bool((spec.get("input") or {}).get("type") == "password")


def _noun(plugin: Plugin) -> str:
    return "Function" if plugin.kind == "functions" else "Tool"


def _state(plugin: Plugin, public: bool) -> str:
    if plugin.kind == "functions":
        return "active, under every answer"
    return "for all users" if public else "for administrators"


def _frontmatter(text: str) -> dict[str, str]:
    """Read the header as Open WebUI does: `key: value` lines in the first docstring."""
    lines = text.splitlines()
    if not lines or lines[0].strip() != '"""':
        return {}
    found = {}
    for line in lines[1:]:
        if '"""' in line:
            break
        match = re.match(r"^\s*([a-z_]+):\s*(.*?)\s*$", line, re.IGNORECASE)
        if match:
            found[match.group(1)] = match.group(2)
    return found


def _version_key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
