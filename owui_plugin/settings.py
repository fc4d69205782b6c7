"""Settings of the plugins: Open WebUI's valves, and the environment, which wins.

A valve is checked by pydantic when an administrator saves it. A variable of the environment
is checked when it is used: an error while the plugin loads would make Open WebUI switch the
plugin off, and nobody would read why.
"""

import logging
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, fields
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from sandbox_core.errors import InvalidRequest
from sandbox_core.limits import LimitRecord, Limits, limit_records
from sandbox_core.pool import PoolSettings

__all__ = [
    "LIMIT_OF_VALVE",
    "ActionValves",
    "CommonValves",
    "EveryValve",
    "PersonalValves",
    "Settings",
    "SettingsError",
    "SharedSettings",
    "ToolValves",
    "describe_allowed",
    "environment_name",
    "resolve_settings",
]

_ENVIRONMENT_PREFIX = "RUN_CODE_"
# Open WebUI itself reads this one, to sort the buttons; we never see its use.
# The service and whoever deploys it know these by names of their own.
_OWN_VARIABLES = {
    "codebox_url": "CODEBOX_API_URL",
    "codebox_secret": "CODEBOX_SECRET",
    "codebox_timeout": "CODEBOX_TIMEOUT",
}
_SHORTEST_SECRET = 32
_NOT_FROM_ENVIRONMENT = frozenset({"priority"})

_settings_log = logging.getLogger("run_code.settings")
_limit_by_name = {record.name: record for record in limit_records()}
_names_warned_about: set[str] = set()


class SettingsError(InvalidRequest):
    """A variable of the environment has a value that its setting does not allow."""


def _limit_valve(limit: str) -> Any:
    """A valve for the limit of this name, with the limit's own default, range and words."""
    record = _limit_by_name[limit]
    return Field(
        default=record.default,
        ge=record.low,
        le=record.high,
        description=_limit_description(record),
        json_schema_extra={"limit": limit},
    )


def _limit_description(record: LimitRecord) -> str:
    unit = f" {record.unit}" if record.unit else ""
    text = record.text[0].upper() + record.text[1:]
    return f"{text}: from {record.low:g} to {record.high:g}{unit}."


class CommonValves(BaseModel):
    """The valves of both plugins: where code runs, what a run may use, how many may run."""

    model_config = ConfigDict(str_strip_whitespace=True)

    backend: Literal["auto", "codebox", "docker"] = Field(
        default="auto",
        description=(
            "Where code runs: in a codebox service, or in the Docker Engine. auto: codebox if "
            "its address is set."
        ),
    )
    codebox_url: str = Field(
        default="",
        pattern=r"^$|^https?://\S+$",
        description="Address of the codebox service, such as `http://codebox:8000`.",
    )
    codebox_secret: str = Field(
        default="",
        description="The service's `CODEBOX_SECRET`, 32 characters or more.",
        json_schema_extra={"input": {"type": "password"}},
    )
    codebox_timeout: float = Field(
        default=30,
        ge=5,
        le=600,
        description="Seconds without a sign of life from codebox, after which a run is lost.",
    )
    docker_host: str = Field(
        default="",
        pattern=r"^$|^[a-z+]+://\S+$",
        description=(
            "Address of the Docker Engine, such as `unix:///run/docker.sock` or "
            "`tcp://host:2376`. Empty: the environment's `DOCKER_HOST`, else the default socket."
        ),
    )
    runtime: str = Field(
        default="runsc",
        min_length=1,
        description="Name of the gVisor runtime in the Docker Engine.",
    )
    image: str = Field(
        default="run-code-python:latest",
        min_length=1,
        description="Image of the sandboxes. It must have `python3`.",
    )
    pull_missing_image: bool = Field(
        default=False,
        description="Pull the image when it is missing. The first run then waits for it.",
    )
    timeout_seconds: float = _limit_valve("seconds")
    memory_mb: int = _limit_valve("memory_mib")
    cpus: float = _limit_valve("cpus")
    processes: int = _limit_valve("processes")
    open_files: int = _limit_valve("open_files")
    work_folder_mb: int = _limit_valve("work_mib")
    tmp_mb: int = _limit_valve("tmp_mib")
    shm_mb: int = _limit_valve("shm_mib")
    output_kept_kb: int = _limit_valve("kept_output_kib")
    output_limit_mb: int = _limit_valve("output_mib")
    max_files: int = _limit_valve("files")
    max_file_mb: int = _limit_valve("file_mib")
    max_concurrent_runs: int = Field(
        default=4,
        ge=1,
        le=256,
        description="Runs at one time in each worker process of Open WebUI. Others wait.",
    )
    max_concurrent_runs_per_user: int = Field(
        default=2,
        ge=1,
        le=256,
        description="Runs of one user at one time in each worker process.",
    )
    max_waiting_runs: int = Field(
        default=50,
        ge=0,
        le=10000,
        description="Runs that may wait in each worker process. More are refused.",
    )
    warm_sandboxes: int = Field(
        default=1,
        ge=0,
        le=32,
        description=(
            "Sandboxes kept ready in each worker process, so that a run need not wait for "
            "its start. Each holds about 110 MB of memory. 0: none."
        ),
    )
    warm_idle_minutes: float = Field(
        default=15,
        ge=1,
        le=1440,
        description="Minutes after the last run when ready sandboxes are given up.",
    )
    warm_memory_mb: int = Field(
        default=512,
        ge=128,
        le=65536,
        description="Memory that all ready sandboxes may hold together, at 128 MB each.",
    )
    warm_modules: str = Field(
        default="numpy, pandas, matplotlib.pyplot",
        pattern=r"^[\w.]*(\s*,\s*[\w.]+)*$",
        json_schema_extra={"allowed": "names of modules, with commas between them"},
        description="Python modules that a ready sandbox has imported; they must be in the image.",
    )


class ActionValves(CommonValves):
    """The valves of the Run code button."""

    shown_output_kb: int = Field(
        default=16,
        ge=1,
        le=1024,
        description=(
            "Output put under the answer, in KiB: its start and its end. The model reads it "
            "too, in each later turn."
        ),
    )
    priority: int = Field(
        default=0,
        description="Place of the button among others: lower comes first.",
    )


class ToolValves(CommonValves):
    """The valves of the run_code tool."""

    model_output_kb: int = Field(
        default=16,
        ge=1,
        le=1024,
        description="Output given to the model, in KiB: its start and its end.",
    )


class EveryValve(ActionValves, ToolValves):
    """All valves of both plugins: what the environment may set, and what the docs list."""


class PersonalValves(BaseModel):
    """The valves that every user has: a person may lower a limit, and never raise one."""

    timeout_seconds: float = Field(
        default=0,
        ge=0,
        le=_limit_by_name["seconds"].high,
        description="Your own time limit in seconds; 0: the administrator's.",
    )
    memory_mb: int = Field(
        default=0,
        ge=0,
        le=_limit_by_name["memory_mib"].high,
        description="Your own memory limit in MiB; 0: the administrator's.",
    )

    @field_validator("timeout_seconds")
    @classmethod
    def _check_timeout(cls, value: float) -> float:
        return _zero_or_allowed(value, _limit_by_name["seconds"])

    @field_validator("memory_mb")
    @classmethod
    def _check_memory(cls, value: int) -> int:
        return int(_zero_or_allowed(value, _limit_by_name["memory_mib"]))


def _zero_or_allowed(value: float, record: LimitRecord) -> float:
    if value and value < record.low:
        raise ValueError(f"use 0, or at least {record.low:g} {record.unit}")
    return value


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """What shapes the one runtime of the process: its backend and its queues.

    ``codebox_url`` is empty when runs go to the Docker Engine.

    Two plugins with equal ``key`` may share a runtime.
    """

    codebox_url: str
    codebox_secret: str = field(repr=False)
    codebox_timeout: float
    docker_host: str
    runtime: str
    image: str
    pull_missing_image: bool
    max_concurrent_runs: int
    max_concurrent_runs_per_user: int
    max_waiting_runs: int
    warm_sandboxes: int
    warm_idle_minutes: float
    warm_memory_mb: int
    warm_modules: str

    @property
    def pool(self) -> PoolSettings:
        """What the pool of ready sandboxes is told."""
        modules = (name.strip() for name in self.warm_modules.split(","))
        return PoolSettings(
            size=self.warm_sandboxes,
            idle_seconds=60 * self.warm_idle_minutes,
            memory_budget_mib=self.warm_memory_mb,
            preload=tuple(name for name in modules if name),
        )

    @property
    def key(self) -> tuple[str | float, ...]:
        """These settings as plain values, equal in every copy of this module."""
        return astuple(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force for one call: plain, checked, and hashable.

    ``shown_output_kb`` and ``model_output_kb`` are in KiB of UTF-8 text.
    """

    shared: SharedSettings
    limits: Limits
    shown_output_kb: int
    model_output_kb: int


def resolve_settings(
    valves: CommonValves, user_valves: PersonalValves | None, environ: Mapping[str, str]
) -> Settings:
    """The settings in force; called by both plugins at the start of each call.

    The environment's RUN_CODE_ variables win over the valves; an empty one counts as unset.
    ``user_valves`` (None: there are none) can only lower limits. Raises SettingsError, with
    the variable, its value and what is allowed, when a variable cannot be used.
    """
    _warn_of_unknown_names(environ)
    values = EveryValve(**valves.model_dump()).model_dump()
    for name in values.keys() - _NOT_FROM_ENVIRONMENT:
        if text := environ.get(environment_name(name), "").strip():
            values[name] = _environment_value(name, text)
    _choose_backend(values)
    limits = Limits(**{limit: values[valve] for valve, limit in LIMIT_OF_VALVE.items()})
    own = user_valves.model_dump(exclude_defaults=True) if user_valves else {}
    return Settings(
        shared=SharedSettings(
            **{entry.name: values[entry.name] for entry in fields(SharedSettings)}
        ),
        limits=limits.lowered(
            **{LIMIT_OF_VALVE[name]: value for name, value in own.items()}
        ),
        shown_output_kb=values["shown_output_kb"],
        model_output_kb=values["model_output_kb"],
    )


def _choose_backend(values: dict[str, Any]) -> None:
    """Leave the service's address only if runs go there."""
    if values["backend"] == "docker":
        values["codebox_url"] = ""
    if values["backend"] == "codebox" and not values["codebox_url"]:
        raise SettingsError(
            "The code service has no address. Ask your administrator to set codebox_url "
            "(CODEBOX_API_URL)."
        )
    secret = values["codebox_secret"].encode("utf-8")
    if values["codebox_url"] and len(secret) < _SHORTEST_SECRET:
        raise SettingsError(
            "The code service has no secret of 32 characters or more. Ask your "
            "administrator to set codebox_secret (CODEBOX_SECRET)."
        )


def environment_name(valve: str) -> str:
    """The variable that overrides a valve; empty when none does."""
    if valve in _NOT_FROM_ENVIRONMENT:
        return ""
    return _OWN_VARIABLES.get(valve, _ENVIRONMENT_PREFIX + valve.upper())


def describe_allowed(valve: str) -> str:
    """In words, what values a valve takes: for errors and for the docs."""
    schema = _SCHEMAS[valve]
    if schema["type"] == "boolean":
        return "true or false"
    if "enum" in schema:
        return ", ".join(schema["enum"])
    if schema["type"] == "string":
        address = "an address with a scheme" if "pattern" in schema else "text"
        return str(schema.get("allowed", address))
    kind = "a whole number" if schema["type"] == "integer" else "a number"
    if "minimum" not in schema:
        return kind
    return f"{kind} from {schema['minimum']:g} to {schema['maximum']:g}"


def _environment_value(name: str, text: str) -> Any:
    try:
        return getattr(EveryValve.model_validate({name: text}), name)
    except ValidationError as error:
        # A text may be an address, which has no place in a chat; a number is no secret.
        shown = "" if _SCHEMAS[name]["type"] == "string" else f", not “{text[:40]}”"
        raise SettingsError(
            f"The environment variable {environment_name(name)} must be "
            f"{describe_allowed(name)}{shown}. Ask your administrator to correct it.",
            detail=str(error),
        ) from None


def _warn_of_unknown_names(environ: Mapping[str, str]) -> None:
    known = {environment_name(name) for name in EveryValve.model_fields}
    ours = {name for name in environ if name.startswith(_ENVIRONMENT_PREFIX)}
    for name in sorted(ours - known - _names_warned_about):
        _names_warned_about.add(name)
        _settings_log.warning("The environment variable %s is no setting here.", name)


_SCHEMAS: dict[str, dict[str, Any]] = EveryValve.model_json_schema()["properties"]
# Each valve that sets a limit, with the limit's name.
LIMIT_OF_VALVE: dict[str, str] = {
    valve: schema["limit"] for valve, schema in _SCHEMAS.items() if "limit" in schema
}
