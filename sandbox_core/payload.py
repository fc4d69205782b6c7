"""The texts of the guest's modules and of the launcher's: what runs inside the sandbox.

The only module that knows where they come from: in the source tree from the files next to
this one; in a generated plugin file the same names are constants, put there by the bundler.
``BUILD_ID`` is ``version+hash`` in a generated file, the same in both plugins of one build.
"""

from pathlib import Path

__all__ = [
    "BUILD_ID",
    "GUEST_FILES_SOURCE",
    "GUEST_PROCESS_SOURCE",
    "GUEST_SOURCE",
    "GUEST_WATCH_SOURCE",
    "GUEST_WIRE_SOURCE",
    "LAUNCHER_DISPLAY_SOURCE",
    "LAUNCHER_FIGURES_SOURCE",
    "LAUNCHER_SOURCE",
]


def _program_text(file_name: str) -> str:
    return (Path(__file__).parent / file_name).read_bytes().decode("utf-8")


BUILD_ID = "0+source"
GUEST_FILES_SOURCE = _program_text("guest_files.py")
GUEST_PROCESS_SOURCE = _program_text("guest_process.py")
GUEST_SOURCE = _program_text("guest.py")
GUEST_WATCH_SOURCE = _program_text("guest_watch.py")
GUEST_WIRE_SOURCE = _program_text("guest_wire.py")
LAUNCHER_DISPLAY_SOURCE = _program_text("launcher_display.py")
LAUNCHER_FIGURES_SOURCE = _program_text("launcher_figures.py")
LAUNCHER_SOURCE = _program_text("launcher.py")
