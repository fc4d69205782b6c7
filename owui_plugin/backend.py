"""Where the plugins' runs go: to a codebox service, or to a container engine of their own."""

from dataclasses import dataclass

from owui_plugin.host import is_open_webui_here
from owui_plugin.host_files import data_folder
from owui_plugin.settings import SharedSettings
from sandbox_core.data_folders import DataFolders, parse_data_folders
from sandbox_core.deadline import Deadline
from sandbox_core.doctor import examine
from sandbox_core.engines.base import Engine, Finding
from sandbox_core.engines.choice import make_engine
from sandbox_core.engines.runsc import RunscEngine
from sandbox_core.engines.runsc_download import downloaded_runsc, start_runsc_download
from sandbox_core.errors import SandboxError
from sandbox_core.language_records import parse_language_records
from sandbox_core.languages import use_added_languages
from sandbox_core.network_proof import examine_network
from sandbox_core.network_runner import NetworkRunner
from sandbox_core.reaper import Reaper
from sandbox_core.remote_runner import RemoteRunner
from sandbox_core.runner import LocalRunner, Runner
from sandbox_core.self_proof import SelfProof

__all__ = ["Backend", "examine_backend", "image_digest", "open_backend"]

# A service has caps of its own, which hold for all workers; these only bound our threads.
_REMOTE_RUNS = 64
_DIGEST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Backend:
    """What runs requests, and how many of them at one time. ``reaper`` and ``proof`` are None,
    and no audit line is ours to write, where a service does all that."""

    runner: Runner
    runs: int
    runs_per_user: int
    reaper: Reaper | None = None
    proof: SelfProof | None = None

    @property
    def is_local(self) -> bool:
        """Whether the sandboxes are started from here."""
        return self.reaper is not None

    def start(self) -> None:
        """Begin what goes on beside the runs."""
        for work in (self.reaper, self.proof):
            if work is not None:
                work.start()

    def stop(self) -> None:
        """End what goes on beside the runs."""
        for work in (self.reaper, self.proof):
            if work is not None:
                work.stop()

    def why_not(self) -> str:
        """A sentence when nothing may run here; else empty."""
        return self.proof.why_not() if self.proof is not None else ""

    def give_up_idle_sandboxes(self) -> None:
        """What was kept ready here will not be needed any more. May take some seconds."""
        if isinstance(self.runner, LocalRunner):
            self.runner.close_pool()


def open_backend(shared: SharedSettings) -> Backend:
    """The backend of these settings. Raises InvalidRequest when they cannot be right."""
    # The other plugin may have asked for it, and knows its languages in a module of its own.
    use_added_languages(parse_language_records(shared.languages))
    if shared.codebox_url:
        return Backend(_remote(shared), _REMOTE_RUNS, _REMOTE_RUNS)
    if shared.runsc_sha512 and shared.backend == RunscEngine.name:
        start_runsc_download(shared.runsc_address, shared.runsc_sha512)
    engine = _engine(shared)
    runner = NetworkRunner(
        engine,
        shared.image,
        shared.runtime,
        shared.networks,
        pool=shared.pool,
        data_folders=_data_folders(shared, engine),
    )
    return Backend(
        runner,
        shared.max_concurrent_runs,
        shared.max_concurrent_runs_per_user,
        Reaper(engine),
        SelfProof(runner, shared.accepted) if shared.self_test else None,
    )


def examine_backend(shared: SharedSettings) -> list[Finding]:
    """What the doctor finds there. Takes some seconds."""
    if not shared.codebox_url:
        engine = _engine(shared)
        findings = examine(
            engine, shared.image, shared.runtime, accepted=shared.accepted
        )
        findings += _examine_data_folders(_data_folders(shared, engine))
        return findings + _examine_network(shared, engine)
    remote = _remote(shared)
    try:
        return remote.findings()
    finally:
        remote.close()


def image_digest(shared: SharedSettings) -> str:
    """The digest of the sandboxes' image; empty when it cannot be told from here."""
    if shared.codebox_url:
        return ""
    try:
        return _engine(shared).image_id(Deadline(_DIGEST_SECONDS))
    except SandboxError:
        return ""


def _engine(shared: SharedSettings) -> Engine:
    return make_engine(
        shared.backend,
        shared.docker_host,
        shared.image,
        shared.runtime,
        shared.pull_missing_image,
        _runsc_path(shared),
        shared.images_folder,
    )


def _runsc_path(shared: SharedSettings) -> str:
    """The setting, else the program that was downloaded if that was asked for."""
    if shared.runsc_path or not shared.runsc_sha512:
        return shared.runsc_path
    return str(downloaded_runsc(shared.runsc_sha512))


def _data_folders(shared: SharedSettings, engine: Engine) -> DataFolders:
    """Those of the settings; none of them may touch Open WebUI's own data."""
    forbidden = [data_folder()] if is_open_webui_here() else []
    folders = parse_data_folders(shared.data_folders)
    return DataFolders(folders, forbidden, engine.is_here)


def _examine_network(shared: SharedSettings, engine: Engine) -> list[Finding]:
    runner = NetworkRunner(engine, shared.image, shared.runtime, shared.networks)
    try:
        return examine_network(runner)
    finally:
        runner.close()


def _examine_data_folders(folders: DataFolders) -> list[Finding]:
    try:
        targets = [folder.target for folder in folders.checked()]
    except SandboxError as error:
        mend = "Correct the valve data_folders, or RUN_CODE_DATA_FOLDERS."
        return [Finding("data folders", False, str(error), mend)]
    text = f"Programs see {', '.join(targets)}, read-only."
    return [Finding("data folders", True, text)] if targets else []


def _remote(shared: SharedSettings) -> RemoteRunner:
    return RemoteRunner(
        shared.codebox_url, shared.codebox_secret, shared.codebox_timeout
    )
