"""What the guest is told: the boot frame, and the frames of one job."""

import re
from collections.abc import Iterator
from dataclasses import replace
from math import ceil
from typing import Any

from sandbox_core.archive import InputPlan
from sandbox_core.displays import DISPLAY_LIMITS
from sandbox_core.egress import proxy_environment
from sandbox_core.guest_program import display_program
from sandbox_core.hardening import (
    GUEST_UID,
    HOME_FOLDER,
    PACKAGES_FOLDER,
    RESERVE_MIB,
    TMPFS_FOLDERS,
    WORK_FOLDER,
)
from sandbox_core.languages import language_named
from sandbox_core.limits import MIB, Limits
from sandbox_core.models import InputFile, RunRequest, Step
from sandbox_core.node_hook import NODE_HOOK
from sandbox_core.payload import LAUNCHER_SOURCE
from sandbox_core.protocol import DATA_CHUNK, encode_frame, encode_header

__all__ = [
    "boot_frame",
    "compile_budget",
    "interpreter_for",
    "job_frames",
    "may_run_warm",
]

# What the first picture makes matplotlib import.
_DRAWING_MODULES = (
    "matplotlib.backends.backend_agg",
    "PIL.BmpImagePlugin",
    "PIL.GifImagePlugin",
    "PIL.JpegImagePlugin",
    "PIL.PpmImagePlugin",
    "PIL.PngImagePlugin",
)
_FORKING = re.compile(r"\bos\.\w*fork|\bfork\b|multiprocessing|ProcessPool|joblib")
# What an import may read in the work folder: modules, and matplotlib's own settings.
_READ_BY_IMPORTS = (".py", ".pyc", ".so", ".zip", ".pth", "matplotlibrc")
_VALUE_PATH = "/tmp/.run-code-value"
_PACKAGES_ARCHIVE = f"{PACKAGES_FOLDER}/.archive"
_BUILD_FOLDER = "/tmp/.run-code-build"
_DISPLAY_FOLDER = "/tmp/.run-code-display"
_MATPLOTLIB_SOURCE = "/usr/local/share/run-code/matplotlib"


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Python takes this folder for the one of its user, and finds packages there before its own.
_PACKAGES_ENV = {
    "PYTHONUSERBASE": PACKAGES_FOLDER,
    "PATH": f"{PACKAGES_FOLDER}/bin:{_PATH}",
}


def boot_frame(
    limits: Limits,
    lease_seconds: float,
    waiting: str = "",
    preload: tuple[str, ...] = (),
    has_packages: bool = False,
    proxy: str = "",
) -> bytes:
    """The first frame: who the program is, what it may use, and when the guest gives up.

    ``waiting`` and ``preload`` are as in SandboxSpec.
    ``has_packages``: there is a folder for installed packages, and an archive of them comes.
    ``proxy``: the address of the proxy that programs use.
    """
    environment = _environment(limits) | proxy_environment(proxy)
    packages = (PACKAGES_FOLDER,) if has_packages else ()
    return encode_header(
        "B",
        {
            "lease_seconds": lease_seconds,
            "uid": GUEST_UID,
            "gid": GUEST_UID,
            "work": WORK_FOLDER,
            "home": HOME_FOLDER,
            "build": _BUILD_FOLDER,
            "folders": [*TMPFS_FOLDERS, *packages],
            "packages": _PACKAGES_ARCHIVE if has_packages else "",
            "mpl_source": _MATPLOTLIB_SOURCE,
            "env": environment | (_PACKAGES_ENV if has_packages else {}),
            "processes": limits.processes,
            "open_files": limits.open_files,
            # Above the folder sizes: a full folder should say "no space left", as anywhere.
            "file_size": (max(limits.work_mib, limits.tmp_mib, limits.shm_mib) + 1)
            * MIB,
            "node_hook": NODE_HOOK if waiting == "node" else "",
            "launcher": [LAUNCHER_SOURCE, display_program(), _DISPLAY_FOLDER],
            "preload": _all_modules(preload),
        },
    )


def _all_modules(preload: tuple[str, ...]) -> list[str]:
    more = _DRAWING_MODULES if "matplotlib.pyplot" in preload else ()
    return [*preload, *more]


def _environment(limits: Limits) -> dict[str, str]:
    """The program's environment: nothing of the host, nothing secret."""
    threads = str(ceil(limits.cpus))
    return {
        "PATH": _PATH,
        "HOME": HOME_FOLDER,
        "USER": "sandbox",
        "LOGNAME": "sandbox",
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        # By environment and not by -u: children of the program inherit it too.
        "PYTHONUNBUFFERED": "1",
        # Without a network every retry only waits.
        "PIP_RETRIES": "0",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": f"{HOME_FOLDER}/.config/matplotlib",
        # glibc gives memory back at once by default, and each page that is taken again costs
        # a fault: a third of a chart's time in gVisor.
        "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
        "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
        # os.cpu_count() shows the host's processors; more threads than CPUs only wait.
        "OMP_NUM_THREADS": threads,
        "OPENBLAS_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
    }


def job_frames(
    request: RunRequest,
    plan: InputPlan,
    lease_seconds: float,
    waiting: str = "",
    packages: InputFile | None = None,
) -> Iterator[bytes]:
    """Files, stdin and, last, the job itself: the program starts only when all is there.

    ``waiting``: the interpreter that waits in the sandbox; the first step gets it if it may.
    ``packages``: the archive for a sandbox that was booted with a folder for it.
    """
    warm_step = bool(waiting) and may_run_warm(request, plan, waiting)
    archive = (replace(packages, name=_PACKAGES_ARCHIVE),) if packages else ()
    for file in (*archive, *plan.files):
        yield encode_header("F", {"name": file.name})
        for chunk in file.chunks(DATA_CHUNK):
            yield encode_frame("D", chunk)
    yield encode_frame("E")
    for chunk in InputFile("stdin", request.stdin).chunks(DATA_CHUNK):
        yield encode_frame("I", chunk)
    limits = request.limits
    yield encode_header(
        "G",
        {
            "steps": [
                _step(index, step, name, warm_step and index == 0)
                for index, (step, name) in enumerate(
                    zip(request.steps, plan.step_names, strict=True)
                )
            ],
            "lease_seconds": lease_seconds,
            "seconds": limits.seconds,
            "compile_seconds": limits.compile_seconds,
            "memory_bytes": limits.memory_mib * MIB,
            "reserve_bytes": RESERVE_MIB * MIB // 2,
            "output_bytes": limits.output_mib * MIB,
            "files": limits.files,
            "file_bytes": limits.file_mib * MIB,
            "collected_bytes": limits.work_mib * MIB,
            "display_folder": _DISPLAY_FOLDER,
            "displays": DISPLAY_LIMITS.files,
            "display_bytes": DISPLAY_LIMITS.file_mib * MIB,
            "all_display_bytes": DISPLAY_LIMITS.work_mib * MIB,
        },
    )


def compile_budget(request: RunRequest) -> float:
    """Seconds that all compilers of a request may take together."""
    languages = [language_named(step.language) for step in request.steps]
    return request.limits.compile_seconds * sum(
        bool(language.compile_argv) for language in languages
    )


def interpreter_for(request: RunRequest) -> str:
    """The interpreter that a warm sandbox for this request should have waiting."""
    return language_named(request.steps[0].language).waiting or "python"


def may_run_warm(request: RunRequest, plan: InputPlan, waiting: str) -> bool:
    """Whether the first step runs in the waiting interpreter as it would in a new one.

    Node.js has loaded nothing of the program's folder. With preloaded modules of Python it is
    another thing when a file or folder beside the program could take the place of a module,
    or is read by one when it is imported: the preloaded one would be in ``sys.modules``
    already. Any Python file or folder of the request counts, whatever its name: the modules'
    own imports are many, and cold is right. Nor does a program run warm that forks: in gVisor
    each child of a process with those modules takes some 35 MB of its own, of a plain one 4.
    """
    first = request.steps[0]
    if language_named(first.language).waiting != waiting:
        return False
    if waiting != "python":
        return True
    if _FORKING.search(first.code):
        return False
    beside = [file.name for file in plan.files if file.name != plan.step_names[0]]
    return not any("/" in name or name.endswith(_READ_BY_IMPORTS) for name in beside)


def _step(index: int, step: Step, file_name: str, warm: bool) -> dict[str, Any]:
    language = language_named(step.language)
    path = f"{WORK_FOLDER}/{file_name}"
    command = language.command_for(step.code, path, _BUILD_FOLDER)
    return {
        "argv": list(command.argv),
        "compile": list(command.compile_argv),
        # The launcher is made of the Python that the guest itself runs on.
        "needs": "" if language.launched else command.needs,
        "env": {},
        "path": path,
        # Its own for each step: an older value must not pass for a new one.
        "value_path": f"{_VALUE_PATH}-{index}",
        "launched": language.launched,
        "warm": warm,
    }
