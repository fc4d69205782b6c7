"""Why the button is missing, or nothing happens: looks at a running Open WebUI.

What the server says is gathered first (``look_at``); the judgements are pure functions of that.
"""

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .plugins import Plugin, check_rights, check_version
from .rest import OpenWebUI, OpenWebUIError, Refused

__all__ = ["Observed", "Verdict", "judge", "look_at"]

_PROGRAM = 'print("hello from the check")'
_EXPECTED = "hello from the check"
_SHOWN_NAMES = 5


@dataclass(frozen=True)
class Verdict:
    """One thing that was looked at; ``mend`` says what to do when it is not well."""

    ok: bool
    text: str
    mend: str = ""


@dataclass(frozen=True)
class Observed:
    """What an administrator is told by a server.

    ``function`` and ``tool`` are their records, None when there is none; ``models`` the list
    that the browser gets; ``trial`` is what the button put under an answer, or said instead.
    """

    features: dict[str, Any] = field(default_factory=dict)
    function: dict[str, Any] | None = None
    tool: dict[str, Any] | None = None
    models: Sequence[dict[str, Any]] = ()
    public_models: frozenset[str] = frozenset()
    usual_tools: Sequence[str] = ()
    trial: str = ""


def look_at(client: OpenWebUI, function: Plugin, tool: Plugin) -> Observed:
    """Ask the server, and press the button once in a chat that is deleted again.

    Raises OpenWebUIError when nothing can be asked: no server, another version, no rights.
    """
    check_version(client, (function, tool))
    check_rights(client)
    models = client.get("/api/models?refresh=true")["data"]
    found = _record(client, function)
    observed = Observed(
        features=client.get("/api/config").get("features", {}),
        function=found,
        tool=_record(client, tool),
        models=models,
        public_models=_public_models(client),
        usual_tools=_usual_tools(client),
    )
    with_button = _models_with(observed, function.id)
    if not with_button:
        return observed
    trial = _press_button(client, function.id, with_button[0])
    return Observed(**{**vars(observed), "trial": trial})


def judge(observed: Observed, function: Plugin, tool: Plugin) -> list[Verdict]:
    """Everything that a person may be missing, in the order in which it is mended."""
    verdicts = [*_judge_switches(observed)]
    verdicts += _judge_button(observed, function)
    if observed.function is not None:
        verdicts.append(_judge_models(observed, function.id))
        verdicts.append(_judge_access(observed))
    if observed.trial:
        verdicts.append(_judge_trial(observed.trial))
    verdicts += _judge_tool(observed, tool)
    return verdicts


def _judge_switches(observed: Observed) -> list[Verdict]:
    # An API key is not told the switches; what they switch off is missing further below.
    return [
        Verdict(
            False,
            f"{kind.capitalize()} are switched off on this server.",
            f"set ENABLE_PLUGINS=true and ENABLE_{kind.upper()}=true in its environment, and "
            "restart it",
        )
        for kind in ("functions", "tools")
        if observed.features.get(f"enable_{kind}") is False
    ]


def _judge_button(observed: Observed, plugin: Plugin) -> list[Verdict]:
    record = observed.function
    if record is None:
        text = f"There is no Function with the id {plugin.id!r}."
        return [Verdict(False, text, "run this without --check: that installs it")]
    verdicts = [_judge_text(record, plugin, "Function")]
    if not record["is_active"]:
        verdicts.append(
            Verdict(
                False,
                "The Function is switched off. Open WebUI does that by itself when it cannot "
                "load it (the server's log has the reason), and SAFE_MODE=true does it.",
                "Admin Panel, Functions: switch it on; or run this without --check",
            )
        )
    elif record["is_global"]:
        verdicts.append(Verdict(True, "The Function is active, and for all models."))
    else:
        verdicts.append(
            Verdict(
                bool(_models_with(observed, plugin.id)),
                "The Function is active, but not global: only models that name it under "
                "Actions have the button.",
                "Admin Panel, Functions, “…”: make it global; or run this without --check",
            )
        )
    return verdicts


def _judge_text(record: dict[str, Any], plugin: Plugin, noun: str) -> Verdict:
    if record.get("content") == plugin.text:
        return Verdict(True, f"The {noun} is the one of this folder.")
    there = (record.get("meta") or {}).get("manifest") or {}
    return Verdict(
        False,
        f"The {noun} there is another one than in this folder (version "
        f"{there.get('version', 'unknown')} there, {plugin.manifest.get('version')} here).",
        "run this without --check: that updates it and keeps its settings",
    )


def _judge_models(observed: Observed, plugin_id: str) -> Verdict:
    names = _models_with(observed, plugin_id)
    if not observed.models:
        return Verdict(
            False,
            "The server has no models, so there are no answers and no buttons.",
            "Admin Panel, Settings, Connections",
        )
    return Verdict(
        bool(names),
        f"{len(names)} of {len(observed.models)} models have the button"
        f"{_some(names)}. A page that was open before needs a reload.",
        "see above: the Function is not active and global",
    )


def _judge_access(observed: Observed) -> Verdict:
    hidden = [
        entry["id"]
        for entry in observed.models
        if entry["id"] not in observed.public_models
    ]
    if not hidden:
        return Verdict(True, "Everybody may use every model.")
    text = f"Only some people may use these models and their buttons{_some(hidden)}."
    return Verdict(True, text)


def _judge_trial(trial: str) -> Verdict:
    if _EXPECTED in trial:
        return Verdict(True, "The button ran a program in a sandbox.")
    return Verdict(
        False,
        f"The button did not run a program. It said: {_one_line(trial)}",
        "look for these words in docs/setup.md (“Errors”), and in the server's log",
    )


def _judge_tool(observed: Observed, plugin: Plugin) -> list[Verdict]:
    record = observed.tool
    if record is None:
        text = f"There is no Tool with the id {plugin.id!r}."
        return [Verdict(False, text, "run this without --check: that installs it")]
    verdicts = [_judge_text(record, plugin, "Tool")]
    grants = record.get("access_grants") or []
    everybody = any(
        grant.get("principal_type") == "user" and grant.get("principal_id") == "*"
        for grant in grants
    )
    if everybody:
        verdicts.append(Verdict(True, "Every user may use the Tool."))
    elif grants:
        text = "Some users or groups may use the Tool, not all (its Access says which)."
        verdicts.append(Verdict(True, text))
    else:
        text = "Only administrators may use the Tool."
        mend = "Workspace, Tools, Access; or run this without --check"
        verdicts.append(Verdict(False, text, mend))
    verdicts.append(_judge_tool_use(observed, plugin.id))
    return verdicts


def _judge_tool_use(observed: Observed, plugin_id: str) -> Verdict:
    if plugin_id in observed.usual_tools:
        return Verdict(True, "The Tool is switched on in every chat.")
    names = [
        entry["id"]
        for entry in observed.models
        if plugin_id
        in (((entry.get("info") or {}).get("meta") or {}).get("toolIds") or [])
    ]
    if names:
        text = f"The Tool is switched on for some models{_some(names)}; elsewhere"
    else:
        text = "The Tool is switched on for no model:"
    return Verdict(True, f"{text} a person does it in the chat, by the tools sign.")


def _models_with(observed: Observed, plugin_id: str) -> list[str]:
    return [
        entry["id"]
        for entry in observed.models
        if any(action["id"] == plugin_id for action in entry.get("actions") or [])
    ]


def _some(names: Sequence[str]) -> str:
    """The first of some names in brackets; empty for none."""
    if not names:
        return ""
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f" ({', '.join(names[:_SHOWN_NAMES])}{more})"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:400]


def _record(client: OpenWebUI, plugin: Plugin) -> dict[str, Any] | None:
    try:
        return dict(client.get(plugin.path))
    except Refused as error:
        if error.status in (401, 404):  # its words for “there is none”
            return None
        raise


def _public_models(client: OpenWebUI) -> frozenset[str]:
    """Models that the server lets everybody use; of those that it only passes on, none."""
    entries = client.get("/api/v1/models/export")
    return frozenset(
        entry["id"]
        for entry in entries
        if any(
            grant.get("principal_id") == "*"
            for grant in entry.get("access_grants") or []
        )
    )


def _usual_tools(client: OpenWebUI) -> Sequence[str]:
    defaults = client.get("/api/v1/configs/models").get("DEFAULT_MODEL_METADATA") or {}
    return list(defaults.get("toolIds") or [])


def _press_button(client: OpenWebUI, plugin_id: str, model: str) -> str:
    """Store a chat with one answer, press the button under it, and delete the chat."""
    question, answer = _turns(model)
    chat = {
        "title": "Check of Run code",
        "models": [model],
        "history": {
            "messages": {entry["id"]: entry for entry in (question, answer)},
            "currentId": answer["id"],
        },
        "messages": [question, answer],
        "params": {},
        "timestamp": int(time.time() * 1000),
    }
    chat_id = client.post("/api/v1/chats/new", {"chat": chat})["id"]
    try:
        client.post(
            f"/api/chat/actions/{plugin_id}",
            {
                "model": model,
                "messages": [
                    {key: entry[key] for key in ("id", "role", "content")}
                    for entry in (question, answer)
                ],
                "chat_id": chat_id,
                "session_id": "check",
                "id": answer["id"],
            },
        )
        stored = client.get(f"/api/v1/chats/{chat_id}")["chat"]["history"]["messages"]
        return _what_it_says(stored[answer["id"]], answer["content"])
    except OpenWebUIError as error:
        return str(error)
    finally:
        client.delete(f"/api/v1/chats/{chat_id}")


def _turns(model: str) -> tuple[dict[str, Any], dict[str, Any]]:
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    now = int(time.time())
    question = {
        "id": first,
        "parentId": None,
        "childrenIds": [second],
        "role": "user",
        "content": "Does Run code work here?",
        "timestamp": now,
        "models": [model],
    }
    answer = {
        "id": second,
        "parentId": first,
        "childrenIds": [],
        "role": "assistant",
        "content": f"```python\n{_PROGRAM}\n```\n",
        "timestamp": now,
        "model": model,
        "done": True,
    }
    return question, answer


def _what_it_says(message: dict[str, Any], before: str) -> str:
    """What the button added to a message: a result, or else its last status."""
    parts = [
        part.get("text", "")
        for item in message.get("output") or []
        for part in item.get("content") or []
    ]
    added = "\n".join(parts).replace(before.strip(), "").strip()
    added = added or str(message.get("content", "")).replace(before.strip(), "").strip()
    status = [
        entry.get("description", "") for entry in message.get("statusHistory") or []
    ]
    return added or (status[-1] if status else "nothing")
