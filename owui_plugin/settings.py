"""Settings of the plugins: Open WebUI's valves, and the environment, which wins.

A valve is checked by pydantic when an administrator saves it. A variable of the environment
is checked when it is used: an error while the plugin loads would make Open WebUI switch the
plugin off, and nobody would read why.
"""

import logging
from collections.abc import Mapping
from dataclasses import astuple, dataclass, field, fields
from typing import Any

from pydantic import ValidationError

from owui_plugin.quota import Quota
from owui_plugin.valves import CommonValves, EveryValve, PersonalValves
from sandbox_core.data_folders import parse_data_folders
from sandbox_core.egress import (
    NO_ROUTES,
    EgressSettings,
    lower_mode,
    may_install_in,
    reaches_out,
)
from sandbox_core.engines.choice import usual_engine_name
from sandbox_core.engines.docker import DockerEngine
from sandbox_core.errors import InvalidRequest
from sandbox_core.installer import InstallSettings
from sandbox_core.language_records import (
    parse_language_records,
    read_language_records,
)
from sandbox_core.languages import use_added_languages
from sandbox_core.limits import Limits
from sandbox_core.network_runner import NetworkSettings
from sandbox_core.pool import PoolSettings
from sandbox_core.proofs import accepted_names
from sandbox_core.requirements import package_names

__all__ = [
    "LIMIT_OF_VALVE",
    "Settings",
    "SettingsError",
    "SharedSettings",
    "describe_allowed",
    "environment_name",
    "resolve_settings",
]

_ENVIRONMENT_PREFIX = "RUN_CODE_"
# The service and whoever deploys it know these by names of their own.
_OWN_VARIABLES = {
    "codebox_url": "CODEBOX_API_URL",
    "codebox_secret": "CODEBOX_SECRET",
    "codebox_timeout": "CODEBOX_TIMEOUT",
}
_SHORTEST_SECRET = 32
# Open WebUI itself reads this one, to sort the buttons; we never see its use.
_NOT_FROM_ENVIRONMENT = frozenset({"priority"})

_settings_log = logging.getLogger("run_code.settings")
_names_warned_about: set[str] = set()


class SettingsError(InvalidRequest):
    """A variable of the environment has a value that its setting does not allow."""


@dataclass(frozen=True, slots=True)
class SharedSettings:
    """What shapes the one runtime of the process: its backend and its queues.

    ``backend`` is “codebox”, or the name of a container engine; ``codebox_url`` is empty then.
    ``languages`` are the records themselves, wherever they were.
    Two plugins with equal ``key`` may share a runtime.
    """

    backend: str
    codebox_url: str
    codebox_secret: str = field(repr=False)
    codebox_timeout: float
    docker_host: str
    runtime: str
    runsc_path: str
    runsc_sha512: str
    runsc_address: str
    image: str
    images_folder: str
    pull_missing_image: bool
    self_test: bool
    accept_unproven: str
    data_folders: str
    languages: str
    network: str
    egress_container: str
    egress_subnets: str
    network_runtime: str
    packages_index: str
    packages_network: str
    packages_mb: int
    packages_seconds: float
    packages_allowed: str
    packages_denied: str
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
    def installs(self) -> InstallSettings | None:
        """How packages are installed from here; None when they are not."""
        if not may_install_in(self.network) or not self.packages_index:
            return None
        return InstallSettings(
            self.packages_index,
            self.packages_network,
            self.network_runtime,
            self.packages_mb,
            self.packages_seconds,
            package_names(self.packages_allowed),
            package_names(self.packages_denied),
        )

    @property
    def networks(self) -> NetworkSettings:
        """What runs that are started from here may reach, and how."""
        way = EgressSettings(
            self.egress_container, self.network_runtime, self.egress_subnets
        )
        return NetworkSettings(self.network, self.installs, way)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Names of the limits that need not be proven."""
        return accepted_names(self.accept_unproven)

    @property
    def data_targets(self) -> tuple[str, ...]:
        """Where programs find the data folders."""
        folders = parse_data_folders(self.data_folders)
        return tuple(folder.target for folder in folders)

    @property
    def key(self) -> tuple[str | float, ...]:
        """These settings as plain values, equal in every copy of this module."""
        return astuple(self)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings in force for one call: plain, checked, and hashable.

    ``network`` is what this call's run may reach at most.
    ``shown_output_kb`` and ``model_output_kb`` are in KiB of UTF-8 text.
    """

    shared: SharedSettings
    limits: Limits
    network: str
    quota: Quota
    update_address: str
    shown_output_kb: int
    model_output_kb: int

    @property
    def may_install(self) -> bool:
        """Whether the run may ask for packages. Whether a service can install them, it says."""
        here = self.shared.installs is not None
        return may_install_in(self.network) and (here or bool(self.shared.codebox_url))


def resolve_settings(
    valves: CommonValves, user_valves: PersonalValves | None, environ: Mapping[str, str]
) -> Settings:
    """The settings in force; called by both plugins at the start of each call.

    The environment's RUN_CODE_ variables win over the valves; an empty one counts as unset.
    ``user_valves`` (None: there are none) can only lower limits and network. Raises
    SettingsError, with the variable, its value and what is allowed, when a variable cannot be
    used. The languages that an administrator added are known afterwards.
    """
    _warn_of_unknown_names(environ)
    values = EveryValve(**valves.model_dump()).model_dump()
    for name in values.keys() - _NOT_FROM_ENVIRONMENT:
        if text := environ.get(environment_name(name), "").strip():
            values[name] = _environment_value(name, text)
    _choose_backend(values)
    _check_data_folders(values)
    _check_network(values)
    # The file may have changed since the valve was checked.
    values["languages"] = read_language_records(values["languages"])
    use_added_languages(parse_language_records(values["languages"]))
    limits = Limits(**{limit: values[valve] for valve, limit in LIMIT_OF_VALVE.items()})
    own = user_valves.model_dump(exclude_defaults=True) if user_valves else {}
    network = lower_mode(values["network"], own.pop("network", ""))
    return Settings(
        shared=SharedSettings(
            **{entry.name: values[entry.name] for entry in fields(SharedSettings)}
        ),
        limits=limits.lowered(
            **{LIMIT_OF_VALVE[name]: value for name, value in own.items()}
        ),
        network=network,
        quota=Quota(
            values["kept_mb_per_run"],
            values["kept_files_per_user"],
            values["kept_mb_per_user"],
            values["delete_oldest_files"],
        ),
        update_address=values["update_address"],
        shown_output_kb=values["shown_output_kb"],
        model_output_kb=values["model_output_kb"],
    )


def _choose_backend(values: dict[str, Any]) -> None:
    """Settle where runs go, and leave the service's address only if they go there."""
    if values["backend"] == "auto":
        here = usual_engine_name(values["docker_host"], values["runsc_path"])
        values["backend"] = "codebox" if values["codebox_url"] else here
    if values["backend"] != "codebox":
        values["codebox_url"] = ""
    elif not values["codebox_url"]:
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


def _check_data_folders(values: dict[str, Any]) -> None:
    """Whether they can be shown from here; they are looked at before a run."""
    if values["data_folders"] and values["codebox_url"]:
        raise SettingsError(
            "Programs run in codebox, which has data folders of its own. Ask your "
            "administrator to set CODEBOX_DATA_FOLDERS there and to empty data_folders here."
        )


def _check_network(values: dict[str, Any]) -> None:
    """Whether what runs may reach can be reached from here."""
    if not may_install_in(values["network"]) or values["codebox_url"]:
        return
    if reaches_out(values["network"]):
        if values["backend"] != DockerEngine.name:
            raise SettingsError(NO_ROUTES)
        return
    if values["backend"] in ("podman", "runsc"):
        raise SettingsError(
            f"Packages cannot be installed with the backend {values['backend']}. Ask your "
            "administrator to set network (RUN_CODE_NETWORK) to none, or to use Docker."
        )
    if not values["packages_index"]:
        raise SettingsError(
            "Packages are allowed, but there is no index to take them from. Ask your "
            "administrator to set packages_index (RUN_CODE_PACKAGES_INDEX)."
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
            f"{describe_allowed(name)}{shown}. {_own_reason(error)}Ask your administrator to "
            "correct it.",
            detail=str(error),
        ) from None


def _own_reason(error: ValidationError) -> str:
    """The sentence of a check of ours, which holds no address; empty for pydantic's words."""
    reasons = (entry.get("ctx", {}).get("error") for entry in error.errors())
    return next((f"{reason} " for reason in reasons if reason), "")


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
