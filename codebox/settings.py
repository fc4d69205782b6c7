"""Settings of the service: environment variables and ``.env``, checked all at once."""

from typing import Any, Literal

from pydantic import (
    AnyHttpUrl,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
)
from pydantic.config import JsonDict

from sandbox_core.data_folders import parse_data_folders
from sandbox_core.egress import (
    NETWORK_MODES,
    NO_NETWORK,
    EgressSettings,
    may_install_in,
    parse_subnets,
)
from sandbox_core.engines.choice import ENGINE_NAMES
from sandbox_core.errors import InvalidRequest
from sandbox_core.installer import InstallSettings
from sandbox_core.language import Language
from sandbox_core.language_records import (
    parse_language_records,
    read_language_records,
)
from sandbox_core.languages import LANGUAGES
from sandbox_core.limits import Limits, limit_records
from sandbox_core.network_runner import NetworkSettings
from sandbox_core.pool import PoolSettings
from sandbox_core.proofs import accepted_names
from sandbox_core.requirements import package_names

__all__ = [
    "Settings",
    "image_variables",
    "variable_of",
]

_SHORTEST_SECRET = 32  # bytes
_FEWEST_CHARACTERS = 8  # different ones in a secret
_EXAMPLE_WORDS = (
    "change",
    "example",
    "replace",
    "your-",
    "your_",
    "insert",
    "placeholder",
)
_IMAGE_PREFIX = "CODEBOX_IMAGE_"
_limits = {record.name: record for record in limit_records()}


def _variable(default: Any, description: str, name: str = "", **rules: Any) -> Any:
    """A setting; ``name`` is its variable where that is not CODEBOX_ and the field's name."""
    extra: JsonDict = {"variable": name} if name else {}
    return Field(default, description=description, json_schema_extra=extra, **rules)


def _maximum(limit: str, description: str) -> Any:
    record = _limits[limit]
    setting = _variable(record.default, description, ge=record.low, le=record.high)
    setting.json_schema_extra["limit"] = limit
    return setting


class Settings(BaseModel):
    """All settings of the service. Secrets do not show in its repr."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    secret: SecretStr = _variable(
        ...,
        "Secret that signs the tokens of the plugins and of other clients: 32 bytes or more, "
        "the same on both sides, used for nothing else.",
    )
    host: str = _variable("127.0.0.1", "Address to listen on.")
    port: int = _variable(8000, "Port to listen on.", ge=1, le=65535)
    container_backend: Literal[ENGINE_NAMES] = _variable(  # type: ignore[valid-type]
        "docker", f"Container engine of the sandboxes: {', '.join(ENGINE_NAMES)}."
    )
    docker_host: str = _variable(
        "",
        "Address of the container engine. Empty: its usual socket.",
        "DOCKER_HOST",
    )
    runtime: str = _variable("runsc", "Name of the gVisor runtime there.", min_length=1)
    runsc_path: str = _variable(
        "",
        "For the engine runsc: where gVisor's program is. Empty: where it usually is.",
    )
    images_folder: str = _variable(
        "",
        "For the engine runsc: the folder of images from scripts/rootfs. Empty: the usual one.",
    )
    image: str = _variable(
        "run-code-python:latest",
        "Image of the sandboxes. One for a single language is named by CODEBOX_IMAGE_ and "
        "the language, such as CODEBOX_IMAGE_PYTHON.",
        min_length=1,
    )
    images: dict[str, str] = Field({}, description="Images by language.")
    data_folders: str = _variable(
        "",
        "Folders of this machine that every program sees read-only, such as "
        "sales=/srv/sales, maps=/srv/maps: there /data/sales and /data/maps.",
    )
    languages: str = _variable(
        "",
        "Languages that you add: records in TOML or JSON, or the path of a file with them "
        "(docs/adding-a-language.md).",
    )
    self_test: bool = _variable(
        True,
        "Prove at the start that the isolation and the limits bite, before any run.",
    )
    accept_unproven: str = _variable(
        "",
        "Limits that need not be proven to run code, by the names that the check gives them, "
        "with commas. For no host that other people's code reaches.",
    )
    warm_sandboxes: int = _variable(
        1, "Sandboxes kept ready for each kind of run; 0: none.", ge=0, le=256
    )
    warm_idle_minutes: float = _variable(
        15, "Minutes after the last run when they are given up.", ge=1, le=1440
    )
    warm_memory_mb: int = _variable(
        512,
        "Memory that all ready sandboxes may hold, at 128 MB each.",
        ge=128,
        le=1048576,
    )
    network: Literal[NETWORK_MODES] = _variable(  # type: ignore[valid-type]
        NO_NETWORK,
        "The most that runs may reach. none: nothing. packages: before a program starts, Python "
        "packages are installed from an index, in a sandbox of their own; the program itself "
        "reaches nothing. allowlist, internet: programs reach, by HTTP and HTTPS through a "
        "proxy, the names on its list, or any public name (docs/network.md).",
    )
    egress_container: str = _variable(
        "run-code-egress", "Name of that proxy's container in the container engine."
    )
    egress_subnets: str = _variable(
        "10.231.72.0/21",
        "Private network that nobody else uses: each run with a network gets eight of its "
        "addresses.",
    )
    network_runtime: str = _variable(
        "runsc-net",
        "Name of a gVisor runtime with a network stack, for what has a network.",
    )
    packages_index: str = _variable(
        "",
        "Address of that index as the sandbox sees it: a number and no name, such as "
        "http://10.231.64.2:5000/index/.",
    )
    packages_network: str = _variable(
        "run-code-packages",
        "Name of the internal network in the container engine that it is on.",
    )
    packages_mb: int = _variable(
        256, "Most that installed packages may hold, in MiB.", ge=1, le=16384
    )
    packages_seconds: float = _variable(
        60, "Seconds that an installation may take.", ge=1, le=3600
    )
    packages_allowed: str = _variable(
        "", "Packages that may be asked for, with commas. Empty: any."
    )
    packages_denied: str = _variable(
        "", "Packages that are never installed, not even because others need them."
    )
    exec_timeout: float = _maximum(
        "seconds", "Seconds that a run may take. A caller may ask for less."
    )
    compile_timeout: float = _maximum(
        "compile_seconds", "Seconds that each compiler may take, apart from the run."
    )
    max_memory_mb: int = _maximum("memory_mib", "Memory of a program, in MiB.")
    max_cpus: float = _maximum("cpus", "CPUs of a run.")
    max_processes: int = _maximum("processes", "Processes and threads of a program.")
    max_open_files: int = _maximum("open_files", "Open files of a process.")
    max_work_mb: int = _maximum("work_mib", "Size of the work folder, in MiB.")
    max_tmp_mb: int = _maximum("tmp_mib", "Size of /tmp, in MiB.")
    max_shm_mb: int = _maximum("shm_mib", "Size of /dev/shm, in MiB.")
    max_kept_output_kb: int = _maximum(
        "kept_output_kib", "Output kept from the start, and again from the end, in KiB."
    )
    max_output_mb: int = _maximum(
        "output_mib", "Output after which a program is stopped, in MiB."
    )
    max_files: int = _maximum("files", "Files brought back from a run.")
    max_file_mb: int = _maximum("file_mib", "Size of one file brought back, in MiB.")
    max_request_mb: int = _variable(8, "Size of a JSON request, in MiB.", ge=1, le=64)
    max_upload_mb: int = _variable(
        128, "Size of a multipart request with its files, in MiB.", ge=1, le=4096
    )
    max_answer_mb: int = _variable(
        16,
        "File contents in one JSON answer, in MiB; NDJSON has no such limit.",
        ge=0,
        le=64,
    )
    max_concurrent: int = _variable(4, "Runs at one time.", ge=1, le=1024)
    max_concurrent_per_user: int = _variable(
        2, "Runs of one user at one time.", ge=1, le=1024
    )
    max_waiting: int = _variable(
        1000, "Runs that may wait. More are refused.", ge=0, le=100000
    )
    max_waiting_per_user: int = _variable(
        50, "Runs of one user that may wait.", ge=0, le=100000
    )
    max_wait_seconds: float = _variable(
        120, "Seconds after which a waiting run is refused.", ge=1, le=3600
    )
    rate_limit_rps: float = _variable(
        5, "Calls of one user a second, on average.", gt=0, le=10000
    )
    rate_limit_burst: int = _variable(
        30, "Calls of one user that may come at once.", ge=1, le=100000
    )
    bad_tokens_per_minute: int = _variable(
        30, "Refused tokens from one address a minute; more get 429.", ge=1, le=100000
    )
    storage_url: str = _variable(
        "memory://",
        "Where limits are counted: memory://, or redis://HOST:PORT/DB for several replicas.",
        pattern=r"^(memory://|rediss?://\S+)$",
    )
    shutdown_seconds: float = _variable(
        20, "Seconds that runs may take to end after a SIGTERM.", ge=1, le=3600
    )
    log_level: Literal["debug", "info", "warning", "error"] = _variable(
        "info", "Least level of what is logged."
    )
    audit_code: bool = _variable(
        False, "Put the code itself into the audit line, not only its hash."
    )
    owui_base_url: AnyHttpUrl | None = _variable(
        None, "Address of Open WebUI, for its session tokens.", "OWUI_BASE_URL"
    )
    owui_verify_tls: bool = _variable(
        True, "Check the certificate of Open WebUI.", "OWUI_VERIFY_TLS"
    )
    owui_session_tokens: bool = _variable(
        False,
        "Accept session tokens of Open WebUI, each checked with it, and move files with them.",
        "OWUI_SESSION_TOKENS",
    )
    owui_session_seconds: float = _variable(
        30,
        "Seconds for which Open WebUI's word on a token is believed.",
        "OWUI_SESSION_SECONDS",
        ge=0,
        le=300,
    )
    owui_user_jwt_secret: SecretStr = _variable(
        SecretStr(""),
        "Secret of the header X-OpenWebUI-User-Jwt (Open WebUI's "
        "FORWARD_USER_INFO_HEADER_JWT_SECRET). Empty: the header is ignored.",
        "OWUI_USER_JWT_SECRET",
    )
    owui_user_jwt_algorithm: Literal["HS256", "HS384", "HS512"] = _variable(
        "HS256", "Algorithm of that header.", "OWUI_USER_JWT_ALGORITHM"
    )

    @field_validator("secret", "owui_user_jwt_secret")
    @classmethod
    def _check_secret(cls, secret: SecretStr) -> SecretStr:
        text = secret.get_secret_value()
        if text:
            _refuse_weak_secret(text)
        return secret

    @field_validator("accept_unproven")
    @classmethod
    def _check_names(cls, text: str) -> str:
        try:
            accepted_names(text)
        except InvalidRequest as error:
            raise ValueError(str(error)) from None
        return text

    @field_validator("egress_subnets")
    @classmethod
    def _check_subnets(cls, text: str) -> str:
        parse_subnets(text)
        return text

    @field_validator("data_folders")
    @classmethod
    def _check_data_folders(cls, text: str) -> str:
        try:
            parse_data_folders(text)
        except InvalidRequest as error:
            raise ValueError(str(error)) from None
        return text

    @field_validator("languages")
    @classmethod
    def _read_languages(cls, setting: str) -> str:
        try:
            text = read_language_records(setting)
            parse_language_records(text)
        except InvalidRequest as error:
            raise ValueError(str(error)) from None
        return text

    @property
    def added_languages(self) -> tuple[Language, ...]:
        """Those that an administrator added."""
        return parse_language_records(self.languages)

    @property
    def installs(self) -> InstallSettings | None:
        """How packages are installed; None when they are not."""
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
        """What runs may reach, and how."""
        way = EgressSettings(
            self.egress_container, self.network_runtime, self.egress_subnets
        )
        return NetworkSettings(self.network, self.installs, way)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Names of the limits that need not be proven."""
        return accepted_names(self.accept_unproven)

    @property
    def limits(self) -> Limits:
        """What a run may use at most, and does unless its caller asks for less."""
        return Limits(
            **{limit: getattr(self, field) for field, limit in _limit_fields().items()}
        )

    @property
    def pool(self) -> PoolSettings:
        """What the pool of ready sandboxes is told."""
        return PoolSettings(
            size=self.warm_sandboxes,
            idle_seconds=60 * self.warm_idle_minutes,
            memory_budget_mib=self.warm_memory_mb,
        )

    def image_for(self, language: str) -> str:
        """The image in which this language runs."""
        added = {entry.name: entry.image for entry in self.added_languages}
        return self.images.get(language) or added.get(language) or self.image


def _refuse_weak_secret(text: str) -> None:
    if len(text.encode("utf-8")) < _SHORTEST_SECRET:
        raise ValueError(f"it has fewer than {_SHORTEST_SECRET} bytes")
    if len(set(text)) < _FEWEST_CHARACTERS:
        raise ValueError("it repeats a few characters")
    if any(word in text.lower() for word in _EXAMPLE_WORDS):
        raise ValueError("it is an example")


def _limit_fields() -> dict[str, str]:
    extras = {
        name: field.json_schema_extra for name, field in Settings.model_fields.items()
    }
    return {
        name: str(extra["limit"])
        for name, extra in extras.items()
        if isinstance(extra, dict) and "limit" in extra
    }


def variable_of(field: str) -> str:
    """The environment variable of a setting."""
    extra = Settings.model_fields[field].json_schema_extra
    named = extra.get("variable") if isinstance(extra, dict) else None
    return str(named or f"CODEBOX_{field.upper()}")


def image_variables() -> dict[str, str]:
    """The variable that names the image of each language, by language."""
    return {entry.name: _IMAGE_PREFIX + entry.name.upper() for entry in LANGUAGES}
