"""The valves of both plugins, as Open WebUI's forms show them and pydantic checks them."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from sandbox_core.data_folders import parse_data_folders
from sandbox_core.egress import NETWORK_MODES, NO_NETWORK, parse_subnets
from sandbox_core.engines.runsc_download import RUNSC_ADDRESS
from sandbox_core.errors import InvalidRequest
from sandbox_core.language_records import is_records_file, parse_language_records
from sandbox_core.limits import LimitRecord, limit_records
from sandbox_core.proofs import PROOF_NAMES

__all__ = ["ActionValves", "CommonValves", "EveryValve", "PersonalValves", "ToolValves"]

_PROOF = f"({'|'.join(PROOF_NAMES)})"
_limit_by_name = {record.name: record for record in limit_records()}


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

    backend: Literal["auto", "codebox", "docker", "podman", "runsc"] = Field(
        default="auto",
        description=(
            "Where code runs: in a codebox service, in a container engine, or by gVisor's own "
            "program here (runsc). auto: codebox if its address is set, else docker if an "
            "address or its socket is there, else runsc if that program is."
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
            "Address of the container engine, such as `unix:///run/docker.sock` or "
            "`tcp://host:2376`. Empty: the environment's `DOCKER_HOST`, else its usual socket."
        ),
    )
    runtime: str = Field(
        default="runsc",
        min_length=1,
        description="Name of the gVisor runtime in the container engine. With the backend "
        "`runsc`: `runsc`, or `runsc-ptrace` for that platform of gVisor.",
    )
    runsc_path: str = Field(
        default="",
        description="For the backend `runsc`: where gVisor's program is. Empty: that of `PATH`.",
    )
    runsc_sha512: str = Field(
        default="",
        pattern=r"^$|^[0-9a-fA-F]{128}$",
        json_schema_extra={"allowed": "128 hexadecimal digits"},
        description="For the backend `runsc`: gVisor's program is downloaded, in the background, "
        "if it is not there, and kept if it has this SHA-512. Empty: nothing is downloaded.",
    )
    runsc_address: str = Field(
        default=RUNSC_ADDRESS,
        pattern=r"^https?://\S+$",
        description="Where it is downloaded from; `{arch}` is `x86_64` or `aarch64`.",
    )
    image: str = Field(
        default="run-code-python:latest",
        min_length=1,
        description="Image of the sandboxes. It must have `python3`.",
    )
    images_folder: str = Field(
        default="",
        description="For the backend `runsc`: the folder of images from `scripts/rootfs`. "
        "Empty: `/var/lib/run-code/images` for root, else `~/.local/share/run-code/images`.",
    )
    pull_missing_image: bool = Field(
        default=False,
        description="Pull the image when it is missing. The first run then waits for it.",
    )
    self_test: bool = Field(
        default=True,
        description="Prove that every limit bites, in the background, soon after the first run; "
        "and run nothing more when one does not.",
    )
    accept_unproven: str = Field(
        default="",
        pattern=rf"^$|^{_PROOF}(\s*,\s*{_PROOF})*$",
        json_schema_extra={"allowed": f"any of {', '.join(PROOF_NAMES)}, with commas"},
        description="Limits that need not hold, by the names that the check gives them: run "
        "code although they do not. For no host that other people's code reaches.",
    )
    data_folders: str = Field(
        default="",
        description=(
            "Folders of this machine that every program sees read-only, such as "
            "`sales=/srv/sales, maps=/srv/maps`: here `/data/sales` and `/data/maps`. Not with "
            "codebox, which has a setting of its own."
        ),
        json_schema_extra={"allowed": "name=/path entries, with commas between them"},
    )
    languages: str = Field(
        default="",
        description=(
            "Languages that you add: records in TOML or JSON, or the path of a file with them "
            "(docs/adding-a-language.md). With codebox, both sides must know them."
        ),
        json_schema_extra={"allowed": "records in TOML or JSON, or a file's path"},
    )
    network: Literal[NETWORK_MODES] = Field(  # type: ignore[valid-type]
        default=NO_NETWORK,
        description=(
            "The most that runs may reach. none: nothing. packages: before a program starts, "
            "Python packages are installed from an index, in a sandbox of their own; the program "
            "itself reaches nothing. allowlist, internet: programs reach, by HTTP and HTTPS "
            "through a proxy, the names on its list, or any public name (docs/network.md). None "
            "but none with the backends `runsc` and `podman`. With codebox, both sides must "
            "allow it."
        ),
    )
    egress_container: str = Field(
        default="run-code-egress",
        min_length=1,
        description="Name of that proxy's container in the container engine.",
    )
    egress_subnets: str = Field(
        default="10.231.72.0/21",
        description="Private network that nobody else uses: each run with a network gets eight "
        "of its addresses.",
        json_schema_extra={"allowed": "a private IPv4 network, /27 or larger"},
    )
    packages_index: str = Field(
        default="",
        pattern=r"^$|^https?://\S+$",
        description="Address of that index as the sandbox sees it: a number and no name, such "
        "as `http://10.231.64.2:5000/index/`.",
    )
    packages_network: str = Field(
        default="run-code-packages",
        min_length=1,
        description="Name of the internal network in the container engine that it is on.",
    )
    network_runtime: str = Field(
        default="runsc-net",
        min_length=1,
        description="Name of a gVisor runtime with a network stack of its own, for whatever has "
        "a network.",
    )
    packages_mb: int = Field(
        default=256,
        ge=1,
        le=16384,
        description="Most that installed packages may hold.",
    )
    packages_seconds: float = Field(
        default=60, ge=1, le=3600, description="Most that an installation may take."
    )
    packages_allowed: str = Field(
        default="",
        description="Packages that may be asked for, with commas. Empty: any.",
        json_schema_extra={"allowed": "names, with commas between them"},
    )
    packages_denied: str = Field(
        default="",
        description="Packages that are never installed, not even because others need them.",
        json_schema_extra={"allowed": "names, with commas between them"},
    )
    timeout_seconds: float = _limit_valve("seconds")
    memory_mb: int = _limit_valve("memory_mib")
    cpus: float = _limit_valve("cpus")
    processes: int = _limit_valve("processes")
    open_files: int = _limit_valve("open_files")
    work_folder_mb: int = _limit_valve("work_mib")
    tmp_mb: int = _limit_valve("tmp_mib")
    shm_mb: int = _limit_valve("shm_mib")
    compile_seconds: float = _limit_valve("compile_seconds")
    output_kept_kb: int = _limit_valve("kept_output_kib")
    output_limit_mb: int = _limit_valve("output_mib")
    max_files: int = _limit_valve("files")
    max_file_mb: int = _limit_valve("file_mib")
    kept_mb_per_run: int = Field(
        default=128,
        ge=0,
        le=65536,
        description="Files kept of one run, in MiB all together.",
    )
    kept_files_per_user: int = Field(
        default=1000,
        ge=0,
        le=1_000_000,
        description="Files of all runs of one user that are kept; 0: none. Users delete "
        "theirs in Settings → Data Controls → Manage Files.",
    )
    kept_mb_per_user: int = Field(
        default=1024,
        ge=0,
        le=1_048_576,
        description="Size of all those files of one user, in MiB.",
    )
    delete_oldest_files: bool = Field(
        default=False,
        description="When a user's files reach these limits, delete the oldest that runs made, "
        "instead of refusing new ones.",
    )
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
    def _check_languages(cls, text: str) -> str:
        try:
            # What is in a file is checked when it is used: the file may change, and with an
            # error on load Open WebUI would not show this form any more.
            if not is_records_file(text):
                parse_language_records(text)
        except InvalidRequest as error:
            raise ValueError(str(error)) from None
        return text


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
    update_address: str = Field(
        default="",
        pattern=r"^$|^https?://\S+$",
        description="Address of the newest `run_code.py` as plain text. An administrator who "
        "presses the button is told when it is newer; it is asked at most once in three days. "
        "Empty: never.",
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

    network: Literal["", *NETWORK_MODES] = Field(  # type: ignore[valid-type]
        default="",
        description="The most that your own runs may reach, as in the administrator's setting, "
        "beyond which it never goes; empty: the administrator's.",
    )

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
