"""
title: Run code
author: The authors of Run code
version: 0.1.0
description: A button under every answer that runs its code in a gVisor sandbox.
required_open_webui_version: 0.9.6
requirements: requests, pydantic>=2, docker>=7, pyjwt, markdown-it-py>=3
license: Apache-2.0
icon_url: data:image/svg+xml,%3Csvg%20xmlns='http://www.w3.org/2000/svg'%20viewBox='0%200%2024%2024'%20fill='none'%20stroke='black'%20stroke-width='2.3'%20stroke-linejoin='round'%3E%3Cpath%20d='M7%204.5v15l12-7.5z'/%3E%3C/svg%3E
"""

# This file is generated. Edit the sources, not this file, and then run
#     python scripts/bundle.py
#
# Version 0.1.0, SHA-256 of the sources of both plugins:
#     cfb3d031e4fe8d331883beaa3d98459b6d14e28d3f839145022831ac69b82500
#
# The parts of this file, in their order:
#     sandbox_core/egress.py                  What a run may reach, and the way out that it gets: values and decisions only.
#     sandbox_core/errors.py                  Errors of the sandbox core.
#     sandbox_core/limits.py                  The limits of one run: a validated value, and one record per limit for docs and valves.
#     sandbox_core/outcome.py                 How a run ended: one enum, and the pure decision from what was observed.
#     sandbox_core/models.py                  What goes into a run and what comes out of it.
#     sandbox_core/hints.py                   What to do next after a failure: one table, shared by people and models.
#     sandbox_core/streams.py                 Program output as text: cleaned, redraws collapsed, head and tail kept.
#     sandbox_core/visible.py                 Text from a program with what hides or turns other text made visible.
#     owui_plugin/render.py                   A run's result as Markdown for people, and how it is found again in a message.
#     sandbox_core/language.py                What is known of one language: how it is recognised, written to a file, compiled and run.
#     owui_plugin/transcripts.py              Terminal transcripts: blocks that hold prompts, commands and output.
#     sandbox_core/images.py                  The sandbox images of this project, and what can be told of an image by its name alone.
#     sandbox_core/languages_compiled.py      The languages that are compiled before they run: one record each, see Language.
#     sandbox_core/languages_interpreted.py   The languages that need no compiler: one record each, see Language.
#     sandbox_core/languages.py               The languages that a sandbox can run, and how they are found by name.
#     owui_plugin/blocks.py                   The code blocks of a message, and which of them can run.
#     owui_plugin/messages.py                 The model's own text in a stored or posted chat message, whatever its shape.
#     owui_plugin/output_items.py             The items that we put into a message's ``output`` list.
#     owui_plugin/host.py                     All that we ask of Open WebUI, each request behind one small function.
#     owui_plugin/quota.py                    How much a person may keep of what runs make: the arithmetic, and the lock around it.
#     owui_plugin/host_files.py               What we ask of Open WebUI's file store, each request behind one small function.
#     sandbox_core/data_folders.py            Folders of the container host that an administrator shows to every sandbox, read-only.
#     sandbox_core/deadline.py                A point on the monotonic clock by which something must have happened.
#     sandbox_core/leases.py                  Who owns a sandbox and until when: the labels that let a reaper find what is left over.
#     sandbox_core/engines/base.py            What an engine is: it gives us a byte channel to the guest of a fresh sandbox.
#     sandbox_core/engines/host_root.py       A root file system made of this machine's own Python, for where no image was prepared.
#     sandbox_core/engines/runsc_images.py    Root file systems for embedded sandboxes: prepared folders, else this machine's Python.
#     sandbox_core/engines/runsc_download.py  Gets gVisor's program from an address, once, when an administrator has asked for it.
#     sandbox_core/language_records.py        Languages that an administrator adds: TOML or JSON, a table for each, by the language's name.
#     sandbox_core/proofs.py                  Programs that try to break a limit, each with how to tell whether it was stopped.
#     owui_plugin/valves.py                   The valves of both plugins, as Open WebUI's forms show them and pydantic checks them.
#     sandbox_core/engines/docker_errors.py   The one place where errors of the docker SDK and its transport become ours.
#     sandbox_core/engines/docker_api.py      Docker's low-level client with a time-out for every call and our errors.
#     sandbox_core/engines/docker_channel.py  The byte channel to one sandbox: the hijacked connection of Docker's attach call.
#     sandbox_core/engines/docker_routes.py   The ways out of sandboxes, as Docker makes them: for each run an internal network with the proxy on it, which goes when the run ends.
#     sandbox_core/engines/machine.py         What of this machine may keep gVisor from running, in words, and commands that fit it.
#     sandbox_core/hardening.py               The one place that decides what a sandbox container may do.
#     sandbox_core/engines/docker.py          The engine over Docker's API: one hardened, single-use gVisor container per sandbox.
#     sandbox_core/engines/podman.py          Podman by way of its Docker-compatible socket: the Docker engine at another address, and what Podman does otherwise (seen in 4.3).
#     sandbox_core/engines/runsc_errors.py    The one place where what runsc says of itself becomes an error of ours.
#     sandbox_core/engines/runsc_state.py     The folders of embedded sandboxes: what Docker keeps in labels, and the processes.
#     sandbox_core/engines/runsc_walls.py     The limits around an embedded sandbox on the host's side: a control group where the host lets us make one, else a watch of our own.
#     sandbox_core/engines/runsc_channel.py   The byte channel to one embedded sandbox: the pipes of a ``runsc run``.
#     sandbox_core/engines/runsc_program.py   gVisor's program on this machine: where it is, and what it may do here.
#     sandbox_core/engines/runsc.py           The embedded engine: gVisor's program on an OCI bundle, without any daemon.
#     sandbox_core/engines/choice.py          Which engine starts the sandboxes: the one place that knows them by name.
#     sandbox_core/requirements.py            Which packages a run asks for: named by its caller, or found before its code.
#     sandbox_core/installer.py               Installs Python packages for a run: in a sandbox of its own, which has the index and nothing else on its network.
#     sandbox_core/spool.py                   The whole output of a run, on disk: what the head and the tail in memory leave out.
#     sandbox_core/archive.py                 Files on the host's side: what goes into a sandbox, and what comes out, both bounded.
#     sandbox_core/payload.py                 The texts of the guest's modules and of the launcher's: what runs inside the sandbox.
#     sandbox_core/guest_program.py           The programs of a sandbox that are made of several modules' texts.
#     sandbox_core/displays.py                What a run showed, on the host's side: figures, images and rich values, bounded.
#     sandbox_core/node_hook.py               What a waiting Node.js does before its program: the text of a module for ``node -r``.
#     sandbox_core/protocol.py                The host's side of the frames between host and guest.
#     sandbox_core/job.py                     What the guest is told: the boot frame, and the frames of one job.
#     sandbox_core/boot.py                    From nothing to a guest that waits for its job: what cold runs and the pool both do first.
#     sandbox_core/pool.py                    Sandboxes started before they are needed.
#     sandbox_core/event_feed.py              Events on their way from a run to whoever watches it, who may be slow or asleep.
#     sandbox_core/recorder.py                What one run has told us so far: frames in, a RunResult out.
#     sandbox_core/runner.py                  Runs requests: the one place that knows the order of things, the budgets and the ladder from asking a sandbox to end to ending it.
#     sandbox_core/installing_runner.py       A local runner that installs what a run asks for, before its first step and beside its time.
#     sandbox_core/network_runner.py          A local runner that gives each run the network that it may have: packages before its program, a way out during it, or nothing at all.
#     owui_plugin/settings.py                 Settings of the plugins: Open WebUI's valves, and the environment, which wins.
#     sandbox_core/inventory.py               What an image has: its languages with their versions, and Python's packages.
#     sandbox_core/doctor.py                  Looks at a host and proves by running things that sandboxes work on it.
#     sandbox_core/network_proof.py           Proves that programs with a network reach the proxy, and nothing private through or past it.
#     sandbox_core/reaper.py                  Removes sandboxes that nobody can be using any more: at the start, and on a timer.
#     sandbox_core/service_client.py          Signed calls to a codebox service, each with a time-out, and its failures in words.
#     sandbox_core/wire.py                    Runs as JSON: what goes between a plugin and the codebox service.
#     sandbox_core/remote_runner.py           Runs requests by way of a codebox service: a runner like the local one, over HTTP.
#     sandbox_core/self_proof.py              Proves in the background that every limit bites, and says when nothing may run any more.
#     owui_plugin/backend.py                  Where the plugins' runs go: to a codebox service, or to a container engine of their own.
#     owui_plugin/dialogs.py                  Questions to the person who clicked.
#     sandbox_core/admission.py               Who may start a run now, and who waits: an asyncio queue that holds no thread.
#     sandbox_core/audit.py                   One line of JSON for each run: who ran what, how it ended, and what it cost.
#     owui_plugin/runtime.py                  One runtime per process, whatever Open WebUI does with the plugins' modules.
#     owui_plugin/progress.py                 What a person sees of a run while it lasts: the grey line above the answer.
#     owui_plugin/check.py                    The check of the sandbox for an administrator, from the button's own dialog.
#     sandbox_core/terminal.py                Runs and findings on a terminal: what both command lines print, and their exit codes.
#     owui_plugin/command_line.py             A pasted plugin file as a command: run a program with it, or prove that it works here.
#     owui_plugin/displays.py                 What a run showed, for Open WebUI: entries to store, and interactive parts as embeds.
#     owui_plugin/file_names.py               Names of files: in the work folder, as a download, and shown.
#     owui_plugin/media_types.py              What a file is, told by its name: its MIME type, and how a chat can show it.
#     owui_plugin/file_store.py               What a run made, kept as files of the person in Open WebUI's own store.
#     owui_plugin/sandbox_links.py            Links like ``sandbox:/mnt/data/chart.png`` in an answer, made to lead to the stored file.
#     owui_plugin/presenter.py                Puts a run's Markdown under an answer so that it is seen now, after a reload, by the model.
#     owui_plugin/interrupted.py              Runs that a restart of Open WebUI cut off: their messages are told so, and end.
#     owui_plugin/line_map.py                 Blocks joined into the steps of a run, and their line numbers found again.
#     owui_plugin/live_output.py              The end of a program's output, shown while it runs.
#     owui_plugin/chat_files.py               Which files belong to a chat up to a message, and under which names.
#     owui_plugin/file_intake.py              The files of a chat on their way into a run: found, checked, opened.
#     owui_plugin/file_rendering.py           What a run made and showed as Markdown: pictures, players, links, the start of small texts.
#     owui_plugin/run_files.py                The files of one run, from the chat into the work folder and from there into the store.
#     owui_plugin/update_notice.py            Tells an administrator that a newer version is out, where a setting says where to look.
#     owui_plugin/action.py                   The Run code button: an Action under every answer that runs the code in it.

import argparse
import asyncio
import base64
import binascii
import codecs
import errno
import fcntl
import hashlib
import html
import inspect
import ipaddress
import json
import logging
import math
import os
import platform
import random
import re
import secrets
import select
import shlex
import shutil
import signal
import socket
import ssl
import stat
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import tomllib
import unicodedata
import urllib.request
import uuid
import zipfile
from collections import Counter, OrderedDict, deque
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    closing,
    contextmanager,
    suppress,
)
from copy import deepcopy
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from importlib import metadata
from io import BytesIO
from itertools import islice
from math import ceil
from mimetypes import MimeTypes
from pathlib import Path, PurePosixPath
from signal import SIGKILL
from types import ModuleType
from typing import Any, IO, Literal, NoReturn, Protocol, Self, cast
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

# ===== begin sandbox_core/egress.py =====

"""What a run may reach, and the way out that it gets: values and decisions only.

A run with a network has one of its own, with nothing on it but a proxy (images/egress). That one
decides what may be reached; everything else has no route.
"""

NO_NETWORK = "none"
# From nothing to most.
NETWORK_MODES = (NO_NETWORK, "packages", "allowlist", "internet")
# In a result's evidence: the mode in which it ran.
NETWORK = "network"

# Of an engine that cannot make the network of a run.
NO_ROUTES = (
    "Programs can have a network with the container engine Docker only, so nothing was run. An "
    "administrator should use it, or set network to none."
)

_DESCRIPTIONS = {
    "allowlist": (
        "By HTTP and HTTPS programs reach hosts that an administrator has listed, and nothing "
        "else."
    ),
    "internet": (
        "Programs reach public hosts, by name and by HTTP or HTTPS on their usual ports, and "
        "nothing else."
    ),
}
_PROXY_PORT = 3128
_SUBNET_BITS = (
    29  # the host's place, the proxy, the sandbox, and no more than three others
)
_TRIES = 30


@dataclass(frozen=True, slots=True)
class EgressSettings:
    """``container`` is the engine's name of the proxy, ``runtime`` that of a gVisor with a
    network stack of its own. ``subnets`` is the private IPv4 network of which each run gets a
    part."""

    container: str
    runtime: str
    subnets: str


@dataclass(frozen=True, slots=True)
class Route:
    """The way out of one run: the engine's name of its network, and the proxy's address."""

    network: str
    proxy: str


def lower_mode(ceiling: str, wanted: str) -> str:
    """The wanted mode, or the ceiling where that is lower; an empty wish is the ceiling."""
    if wanted not in NETWORK_MODES:
        return ceiling
    return min(ceiling, wanted, key=NETWORK_MODES.index)


def may_install_in(mode: str) -> bool:
    """Whether packages may be installed before a program of this mode."""
    return mode in NETWORK_MODES and mode != NO_NETWORK


def reaches_out(mode: str) -> bool:
    """Whether a program of this mode itself has a network."""
    return mode in ("allowlist", "internet")


def describe_network(mode: str) -> str:
    """For models: what a program of this mode reaches."""
    return _DESCRIPTIONS.get(mode, "There is no network.")


def route_name(mode: str, run_id: str) -> str:
    """The name of a run's network. The proxy reads mode and run from it
    (images/egress/run_of_address.py)."""
    return f"run-code-{mode}-{run_id}"


def parse_subnets(text: str) -> ipaddress.IPv4Network:
    """The network of a setting. Raises ValueError, in words, for one that is not private or is
    too small to be divided."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        raise ValueError("it is no IPv4 network such as 10.231.72.0/21") from None
    private = any(
        network.subnet_of(ipaddress.IPv4Network(block))
        for block in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
    )
    if not private:
        raise ValueError("it is no private network: the proxy would not refuse it")
    if network.prefixlen > _SUBNET_BITS - 2:
        raise ValueError(f"it must be /{_SUBNET_BITS - 2} or larger")
    return network


def route_subnets(subnets: str) -> Iterator[tuple[str, str]]:
    """Some networks to try for a run, each with the proxy's address in it. Which are in use
    only the engine knows."""
    network = parse_subnets(subnets)
    count = 1 << (_SUBNET_BITS - network.prefixlen)
    for number in random.sample(range(count), min(count, _TRIES)):
        first = network.network_address + (number << (32 - _SUBNET_BITS))
        yield f"{first}/{_SUBNET_BITS}", str(first + 2)


def proxy_environment(proxy: str) -> dict[str, str]:
    """What tells programs to use the proxy at this address; nothing without one."""
    if not proxy:
        return {}
    address = f"http://{proxy}:{_PROXY_PORT}"
    ours = "localhost,127.0.0.1,::1"
    lower = {"http_proxy": address, "https_proxy": address, "no_proxy": ours}
    upper = {name.upper(): value for name, value in lower.items()}
    # Node.js reads the others only when it is told to.
    return {**lower, **upper, "NODE_USE_ENV_PROXY": "1"}


# ===== end sandbox_core/egress.py =====

# ===== begin sandbox_core/errors.py =====

"""Errors of the sandbox core. Every message is a plain sentence that may be shown in a
chat: it says what happened and what to do next, and holds no path, address or secret.

    SandboxError
    ├── InvalidRequest        the caller asked for something that is not allowed
    ├── EngineError           the engine cannot give us a sandbox
    │   ├── EngineUnavailable     the daemon is down, unreachable or does not answer
    │   ├── RuntimeMissing        the gVisor runtime is not registered or its binary is gone
    │   ├── NotIsolated           the runtime that answered is not gVisor
    │   ├── ImageMissing          the sandbox image is not on this host
    │   └── StartFailed           the sandbox was made but did not come up in time
    ├── ChannelClosed         the guest is gone (or was killed) while we talked to it
    └── ProtocolError         the sandbox sent something that the protocol does not allow
"""


class SandboxError(Exception):
    """Base of all errors of the core; ``str(error)`` is a sentence for people.

    ``detail`` is for the log only: it may name hosts, paths and vendor messages.
    ``engine``, ``image`` and ``run_id`` are filled in on the way out by whoever knows them.
    """

    def __init__(self, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.detail = detail
        self.engine = ""
        self.image = ""
        self.run_id = ""


class InvalidRequest(SandboxError):
    """The request breaks a rule: a limit out of range, an unknown language, a bad name."""


class EngineError(SandboxError):
    """The engine cannot give us a sandbox."""


class EngineUnavailable(EngineError):
    """The daemon is down, unreachable, or accepts connections and never answers."""


class RuntimeMissing(EngineError):
    """The daemon does not know the gVisor runtime, or cannot start its binary."""


class NotIsolated(EngineError):
    """A sandbox came up, but what runs it is not gVisor."""


class ImageMissing(EngineError):
    """The sandbox image is not on this host."""


class StartFailed(EngineError):
    """The sandbox was made but did not come up within its start budget."""


class ChannelClosed(SandboxError):
    """The guest is gone, or the channel was killed, while we talked to it."""


class ProtocolError(SandboxError):
    """The sandbox sent something that the protocol does not allow."""


# ===== end sandbox_core/errors.py =====

# ===== begin sandbox_core/limits.py =====

"""The limits of one run: a validated value, and one record per limit for docs and valves."""

MIB = 1 << 20


def _limit(default: float, low: float, high: float, unit: str, text: str) -> Any:
    return field(
        default=default,
        metadata={"low": low, "high": high, "unit": unit, "text": text},
    )


@dataclass(frozen=True, slots=True)
class LimitRecord:
    """What the docs and the valves say about one limit."""

    name: str
    default: float
    low: float
    high: float
    unit: str
    text: str


@dataclass(frozen=True, slots=True, repr=False)
class Limits:
    """What one run may use. All values are checked at construction.

    ``memory_mib`` is for the program alone; the tmpfs folders have sizes of their own.
    Raises InvalidRequest, naming the limit and its range, when a value is out of range.
    """

    seconds: float = _limit(
        30, 0.1, 3600, "s", "wall-clock time of all steps of a run together"
    )
    memory_mib: int = _limit(512, 32, 65536, "MiB", "memory of the program")
    cpus: float = _limit(1, 0.1, 64, "CPUs", "processor time per second")
    processes: int = _limit(
        128, 8, 4096, "", "processes and threads of the program at one time"
    )
    open_files: int = _limit(1024, 32, 65536, "", "open files per process")
    work_mib: int = _limit(
        128, 1, 65536, "MiB", "work folder, `/mnt/data` (tmpfs, exec)"
    )
    tmp_mib: int = _limit(64, 1, 65536, "MiB", "`/tmp`, which holds `$HOME` (tmpfs)")
    shm_mib: int = _limit(64, 1, 65536, "MiB", "`/dev/shm` (tmpfs)")
    compile_seconds: float = _limit(
        60, 1, 3600, "s", "time of each compiler, apart from that of the programs"
    )
    kept_output_kib: int = _limit(
        256, 1, 4096, "KiB", "output kept from the start, and again from the end"
    )
    output_mib: int = _limit(
        64, 1, 1024, "MiB", "output after which the program is stopped"
    )
    files: int = _limit(100, 0, 10000, "", "files brought back from a run")
    file_mib: int = _limit(64, 1, 4096, "MiB", "size of one file brought back")

    def __post_init__(self) -> None:
        for record in limit_records():
            _check_limit(record, getattr(self, record.name))

    def __repr__(self) -> str:
        changed = (
            f"{record.name}={getattr(self, record.name)!r}"
            for record in limit_records()
            if getattr(self, record.name) != record.default
        )
        return f"Limits({', '.join(changed)})"

    @property
    def tmpfs_mib(self) -> int:
        """Size of all tmpfs folders together, in MiB."""
        return self.work_mib + self.tmp_mib + self.shm_mib

    def shape(self) -> Self:
        """These limits with all at their defaults that a container is not made for."""
        shaping = ("memory_mib", "cpus", "processes", "open_files")
        names = (*shaping, "work_mib", "tmp_mib", "shm_mib")
        return type(self)(**{name: getattr(self, name) for name in names})

    def lowered(self, **wanted: float) -> Self:
        """These limits with each wanted one that is lower; a higher one changes nothing."""
        lower = {
            name: min(getattr(self, name), value) for name, value in wanted.items()
        }
        return replace(self, **lower)


def limit_records() -> tuple[LimitRecord, ...]:
    """One record per limit, in the order in which people read them."""
    return _LIMIT_RECORDS


def _check_limit(record: LimitRecord, value: object) -> None:
    whole = isinstance(record.default, int) and record.unit not in ("s", "CPUs")
    number = (
        value
        if isinstance(value, (int, float)) and not isinstance(value, bool)
        else None
    )
    if whole and isinstance(number, float):
        number = None
    if number is None or not record.low <= number <= record.high:
        kind = "a whole number" if whole else "a number"
        unit = f" {record.unit}" if record.unit else ""
        raise InvalidRequest(
            f"The limit {record.name} must be {kind} from {record.low:g} to "
            f"{record.high:g}{unit}, not {value!r}."
        )


_LIMIT_RECORDS = tuple(
    LimitRecord(
        name=entry.name,
        default=cast(float, entry.default),
        low=entry.metadata["low"],
        high=entry.metadata["high"],
        unit=entry.metadata["unit"],
        text=entry.metadata["text"],
    )
    for entry in fields(Limits)
)

# ===== end sandbox_core/limits.py =====

# ===== begin sandbox_core/outcome.py =====

"""How a run ended: one enum, and the pure decision from what was observed."""


class Outcome(StrEnum):
    """The one word for how a run ended, in order of precedence."""

    SANDBOX_ERROR = "sandbox_error"
    CANCELLED = "cancelled"
    MEMORY_LIMIT = "memory_limit"
    TIMEOUT = "timeout"
    OUTPUT_LIMIT = "output_limit"
    PROCESS_LIMIT = "process_limit"
    DISK_LIMIT = "disk_limit"
    COMPILE_ERROR = "compile_error"
    FAILED = "failed"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What guest, host and engine saw of one run. Says nothing yet about what it means.

    ``done``: the guest told its end in full. ``oom``: the engine's out-of-memory flag, which
    is evidence and not a verdict: its killer may have taken one process and left the rest.
    ``exit_code`` and ``signal`` are those of the step that ended the run; at most one is set,
    and with ``compiling`` they are the compiler's, which names ``error_line`` first.
    ``missing`` says which language the image does not have, when that ended it.
    """

    error: str = ""
    cancelled: bool = False
    done: bool = False
    exit_code: int | None = None
    signal: int | None = None
    oom: bool = False
    memory_killed: bool = False
    timed_out: bool = False
    output_capped: bool = False
    processes_killed: bool = False
    processes_full: bool = False
    disk_full: bool = False
    compiling: bool = False
    error_line: int | None = None
    missing: str = ""


def classify(seen: Evidence) -> Outcome:
    """The outcome of a run from its evidence; a table in the tests pins every row.

    A wall that was touched by a program which then ended with 0 is a note, not an outcome.
    """
    succeeded = seen.done and seen.exit_code == 0
    rows = (
        (bool(seen.error), Outcome.SANDBOX_ERROR),
        (seen.cancelled, Outcome.CANCELLED),
        (seen.memory_killed or _oom_ended_it(seen), Outcome.MEMORY_LIMIT),
        (seen.timed_out, Outcome.TIMEOUT),
        (seen.output_capped, Outcome.OUTPUT_LIMIT),
        (seen.processes_killed, Outcome.PROCESS_LIMIT),
        (seen.processes_full and not succeeded, Outcome.PROCESS_LIMIT),
        (seen.disk_full and not succeeded, Outcome.DISK_LIMIT),
        (not seen.done, Outcome.SANDBOX_ERROR),
        (seen.compiling and not succeeded, Outcome.COMPILE_ERROR),
        (not succeeded, Outcome.FAILED),
    )
    return next((outcome for holds, outcome in rows if holds), Outcome.OK)


def _oom_ended_it(seen: Evidence) -> bool:
    killed_one = seen.signal == signal.SIGKILL or seen.exit_code == 1
    return seen.oom and (not seen.done or killed_one)


def describe_outcome(outcome: Outcome, seen: Evidence, limits: Limits) -> str:
    """One plain sentence for people and models; empty when all went well."""
    if outcome is Outcome.FAILED:
        return _describe_failure(seen)
    subject = "compiler" if seen.compiling else "program"
    place = f" (line {seen.error_line})" if seen.error_line else ""
    seconds = limits.compile_seconds if seen.compiling else limits.seconds
    sentences = {
        Outcome.OK: "",
        Outcome.SANDBOX_ERROR: seen.error
        or "The sandbox ended unexpectedly. Try again; if it stays, tell your administrator.",
        Outcome.CANCELLED: "The run was stopped on request.",
        Outcome.MEMORY_LIMIT: (
            f"The {subject} was stopped: it used more than the memory limit of "
            f"{limits.memory_mib} MB."
        ),
        Outcome.TIMEOUT: (
            f"The {subject} was stopped after {seconds:g} s, the time limit (timeout)."
        ),
        Outcome.OUTPUT_LIMIT: (
            f"The {subject} was stopped: it printed more than the output limit of "
            f"{limits.output_mib} MB."
        ),
        Outcome.PROCESS_LIMIT: (
            f"The {subject} ran into the process limit of {limits.processes} processes and "
            f"threads."
        ),
        Outcome.DISK_LIMIT: (
            f"The {subject} ran out of disk space: the disk limit is {limits.work_mib} MB in "
            f"the work folder and {limits.tmp_mib} MB in /tmp."
        ),
        Outcome.COMPILE_ERROR: f"The program does not compile{place}, so it was not run.",
    }
    return sentences[outcome]


def _describe_failure(seen: Evidence) -> str:
    if seen.missing:
        return f"Nothing was run: {seen.missing}."
    if seen.signal is not None:
        name = signal_name(seen.signal)
        return f"The program was killed by signal {seen.signal} ({name})."
    if seen.exit_code is None:
        return "The program failed."
    return f"The program failed with exit code {seen.exit_code}."


def signal_name(number: int) -> str:
    """``SIGSEGV`` for 11; ``signal 99`` for a number without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# ===== end sandbox_core/outcome.py =====

# ===== begin sandbox_core/models.py =====

"""What goes into a run and what comes out of it. Values only: no engine, no I/O.

``to_plain`` / ``from_plain`` give and take dicts of JSON-like values (plus bytes and open
files), because two copies of this module may meet in one process: each pasted plugin holds
its own, and only plain values may cross between them.
"""

_PIECE_BYTES = 1 << 20


def new_run_id() -> str:
    """A fresh id of 16 hex digits for one run."""
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True)
class Step:
    """One program of a run: a language name or alias, and its source text."""

    language: str
    code: str


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file placed in the work folder: a relative name and its whole content, which is
    ``data``, or that of an open file (seekable, at most one run reads it)."""

    name: str
    data: bytes = b""
    content: IO[bytes] | None = None

    @property
    def size(self) -> int:
        """Length of the content in bytes. Raises InvalidRequest for an unreadable file."""
        if self.content is None:
            return len(self.data)
        with _reading(self.name):
            return self.content.seek(0, 2)

    def chunks(self, most: int) -> Iterator[bytes | memoryview]:
        """The content in pieces of at most ``most`` bytes; never whole in memory when it is a
        file. Raises InvalidRequest when that cannot be read."""
        if self.content is None:
            view = memoryview(self.data)
            yield from (
                view[start : start + most] for start in range(0, len(view), most)
            )
            return
        with _reading(self.name):
            self.content.seek(0)
            while chunk := self.content.read(most):
                yield chunk

    def whole(self) -> bytes:
        """All of the content at once. Raises InvalidRequest when it cannot be read."""
        return b"".join(self.chunks(_PIECE_BYTES))


@dataclass(frozen=True, slots=True)
class RunRequest:
    """1..n steps for one fresh sandbox, in order. Raises InvalidRequest when there is none.

    ``packages`` are names of Python packages to install before the first step. ``network`` is
    one of egress.NETWORK_MODES: what the run may reach at most; empty: all that is allowed.
    ``user`` and ``chat`` are ids of whoever asked, for queues and records: they never enter
    the sandbox, and its labels do not name them.
    """

    steps: tuple[Step, ...]
    files: tuple[InputFile, ...] = ()
    stdin: bytes = b""
    limits: Limits = field(default_factory=Limits)
    run_id: str = field(default_factory=new_run_id)
    user: str = ""
    chat: str = ""
    packages: tuple[str, ...] = ()
    network: str = ""

    def __post_init__(self) -> None:
        if not self.steps:
            raise InvalidRequest("There is no code to run.")

    def to_plain(self) -> dict[str, Any]:
        """This request as plain values (and open files); the inverse of from_plain."""
        return {
            "steps": [asdict(step) for step in self.steps],
            "files": [_shallow_plain(file) for file in self.files],
            "stdin": self.stdin,
            "limits": asdict(self.limits),
            "run_id": self.run_id,
            "user": self.user,
            "chat": self.chat,
            "packages": self.packages,
            "network": self.network,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """A request from what to_plain gave. Raises InvalidRequest as the constructors do."""
        return cls(
            steps=tuple(Step(**step) for step in plain["steps"]),
            files=tuple(InputFile(**file) for file in plain["files"]),
            stdin=plain["stdin"],
            limits=Limits(**plain["limits"]),
            run_id=plain["run_id"],
            user=plain["user"],
            chat=plain["chat"],
            packages=tuple(plain["packages"]),
            network=plain["network"],
        )


@dataclass(frozen=True, slots=True)
class KeptText:
    """Cleaned text of which, when it was long, only the head and the tail were kept.

    ``omitted`` counts the UTF-8 bytes left out between ``head`` and ``tail``.
    """

    head: str = ""
    tail: str = ""
    omitted: int = 0

    def __str__(self) -> str:
        if not self.omitted:
            return self.head + self.tail
        return f"{self.head}\n[… {self.omitted} bytes left out …]\n{self.tail}"


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Something that happened while a run was under way.

    ``kind`` is ``started`` (a step's program runs) or ``text`` (cleaned output of ``stream``,
    ``stdout`` or ``stderr``; a carriage return in it means: the current line starts anew).
    """

    kind: str
    step: int = 0
    stream: str = ""
    text: str = ""


OnEvent = Callable[[RunEvent], None]


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A regular file that the run made or changed. ``content`` is an unlinked temporary file,
    positioned at its start; it is gone when closed. ``size`` is in bytes."""

    name: str
    size: int
    content: IO[bytes]


@dataclass(frozen=True, slots=True)
class Display:
    """A figure, an image or a rich value that the run showed; not a file of its work folder.

    ``mime_type`` is one of ours, ``name`` is made by us and no file of the run has it.
    ``content`` and ``size`` are as in OutputFile, and as untrusted.
    """

    mime_type: str
    name: str
    size: int
    content: IO[bytes]


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """Something in the work folder that was not brought back, and the reason in words."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunResult:
    """All that is known of one run. ``message`` is one plain sentence, empty when all is well.

    ``output`` holds stdout and stderr in the order in which the guest saw them, and
    ``full_output`` the same as a file, up to the limits of output and of one file.
    ``displays`` come in the order in which they were shown.
    ``seconds`` is the time of the programs, ``total_seconds`` that of the whole call.
    ``failed_step`` is the index of the step that ended the run early.
    ``evidence`` names what really ran it (kernel text, engine, image), for logs and doctors.
    """

    run_id: str
    outcome: Outcome
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    stdout: KeptText = KeptText()
    stderr: KeptText = KeptText()
    output: KeptText = KeptText()
    value: str | None = None
    files: tuple[OutputFile, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    displays: tuple[Display, ...] = ()
    full_output: OutputFile | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    total_seconds: float = 0.0
    failed_step: int | None = None
    evidence: dict[str, str] = field(default_factory=dict)

    @property
    def shell_exit_code(self) -> int | None:
        """Exit status as a shell tells it: 128 + signal for a killed program."""
        return self.exit_code if self.signal is None else 128 + self.signal

    @property
    def contents(self) -> tuple[Display | OutputFile, ...]:
        """All that has to be read or closed: what was shown, then the files."""
        return (*self.displays, *self.files)

    def to_plain(self) -> dict[str, Any]:
        """This result as plain values (and open files); the inverse of from_plain."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        plain["outcome"] = str(self.outcome)
        for name in ("stdout", "stderr", "output"):
            plain[name] = asdict(plain[name])
        plain["files"] = [_shallow_plain(file) for file in self.files]
        plain["displays"] = [_shallow_plain(entry) for entry in self.displays]
        if self.full_output is not None:
            plain["full_output"] = _shallow_plain(self.full_output)
        plain["skipped"] = [asdict(entry) for entry in self.skipped]
        return plain

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """A result from what to_plain gave."""
        values = dict(plain)
        values["outcome"] = Outcome(plain["outcome"])
        for name in ("stdout", "stderr", "output"):
            values[name] = KeptText(**plain[name])
        values["files"] = tuple(OutputFile(**file) for file in plain["files"])
        values["displays"] = tuple(Display(**entry) for entry in plain["displays"])
        if plain["full_output"] is not None:
            values["full_output"] = OutputFile(**plain["full_output"])
        values["skipped"] = tuple(SkippedFile(**entry) for entry in plain["skipped"])
        return cls(**values)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # a closed file is a ValueError
        raise InvalidRequest(
            f"The file “{name[:80]}” could not be read. Run it again without the file.",
            detail=repr(error),
        ) from error


def _shallow_plain(value: InputFile | OutputFile | Display) -> dict[str, Any]:
    """The fields by name; an open file cannot be copied, as asdict would."""
    return {name: getattr(value, name) for name in value.__slots__}


# ===== end sandbox_core/models.py =====

# ===== begin sandbox_core/hints.py =====

"""What to do next after a failure: one table, shared by people and models."""

# In a result's evidence: packages could have been installed.
PACKAGES_ON = "packages"

# Only the end of the error output tells why a program ended.
_HINT_REACH = 4096


@dataclass(frozen=True, slots=True)
class _Hint:
    pattern: re.Pattern[str]
    sentence: str


def _hint(pattern: str, sentence: str) -> _Hint:
    return _Hint(re.compile(pattern, re.MULTILINE), sentence)


_BY_OUTCOME = {
    Outcome.SANDBOX_ERROR: "Changing the code will not help.",
    Outcome.MEMORY_LIMIT: "Work on less data at a time, or use smaller data types.",
    Outcome.TIMEOUT: "Make the code faster, or let it do less in one run.",
    Outcome.OUTPUT_LIMIT: "Print less, for example only a summary.",
    Outcome.PROCESS_LIMIT: "Start fewer processes and threads at a time.",
    Outcome.DISK_LIMIT: "Write less, or delete files that are no longer needed.",
    Outcome.COMPILE_ERROR: "Correct what the compiler names, the first error first.",
}

_NO_SUCH_PACKAGE = (
    r"^(?:ModuleNotFoundError|ImportError)\b|No matching distribution found"
)
_MAY_INSTALL = re.compile(_NO_SUCH_PACKAGE, re.MULTILINE)
_INSTALL_IT = (
    "Packages can be installed before the program: name it in `packages`, or begin the code "
    "with a line `pip install` (in Python `!pip install`); its name in the index may differ."
)

# Where programs have a network, the proxy or the lack of any other way is what stopped them.
_UNREACHED = re.compile(
    r"Tunnel connection failed|CONNECT tunnel failed|response 403|ERR_ACCESS_DENIED"
    r"|Forbidden|ProxyError|ERR_DNS_FAIL|Service Unavailable"
    r"|Name or service not known|Temporary failure in name resolution|getaddrinfo|EAI_AGAIN"
    r"|Network is unreachable|Connection refused|No route to host|Could not resolve host"
)

_BY_ERROR = (
    _hint(
        r"^EOFError\b|\bread: read error\b",
        "There is no keyboard here: set the value in the code, or give the input "
        "beforehand as stdin.",
    ),
    _hint(
        r"No matching distribution found|Failed to establish a new connection"
        r"|Temporary failure in name resolution|Name or service not known"
        r"|Network is unreachable|Could not resolve host|getaddrinfo|EAI_AGAIN"
        r"|Temporary failure resolving",
        "There is no network in the sandbox, and installing packages is off: use what "
        "is there (`pip list` shows it) and put the data into the code.",
    ),
    _hint(
        r"Cannot find (?:module|package) '(?![./])|\b(?:npm|npx|pnpm|yarn): command not found",
        "Packages of npm are not in the sandbox and cannot be installed: use what Node.js has "
        "by itself, or do it in Python.",
    ),
    _hint(
        r"^(?:ModuleNotFoundError|ImportError)\b",
        "That package is not in the sandbox, and installing packages is off: use one that "
        "is there (`pip list` shows them) or do without.",
    ),
    _hint(
        r"^\s*[!%]\s*\w[^\n]*\n\s*\^[^\n]*\n(?:SyntaxError|IndentationError)\b",
        "Notebook commands (lines with `!` or `%` in front) do not work here: put shell "
        "commands into a Bash block.",
    ),
    _hint(
        r"No such file or directory|ENOENT|Cannot find module '[./]",
        "The work folder holds the files that were given to this run and nothing else: use "
        "their names as they are, or create the file in the same code.",
    ),
    _hint(
        r"command not found",
        "That command is not in the sandbox: use one that is there, or do it in Python.",
    ),
    _hint(
        r"Read-only file system|Permission denied|EROFS|EACCES",
        "Only the work folder and `/tmp` can be written to.",
    ),
    _hint(
        r"^MemoryError\b|heap out of memory|Cannot allocate memory",
        _BY_OUTCOME[Outcome.MEMORY_LIMIT],
    ),
)


def hint_for(result: RunResult) -> str:
    """One sentence of advice, as Markdown, after a run that did not end well; empty when
    all is well or there is nothing to advise. It holds no text of the program."""
    if result.outcome is not Outcome.FAILED:
        return _BY_OUTCOME.get(result.outcome, "")
    end = (result.stderr.head + result.stderr.tail)[-_HINT_REACH:]
    if result.evidence.get(PACKAGES_ON) and _MAY_INSTALL.search(end):
        return _INSTALL_IT
    network = result.evidence.get(NETWORK, NO_NETWORK)
    if reaches_out(network) and _UNREACHED.search(end):
        return (
            f"{describe_network(network)} Use the proxy that the environment names "
            "(`https_proxy`); nothing else leads outside."
        )
    return next((hint.sentence for hint in _BY_ERROR if hint.pattern.search(end)), "")


# ===== end sandbox_core/hints.py =====

# ===== begin sandbox_core/streams.py =====

"""Program output as text: cleaned, redraws collapsed, head and tail kept.

Pure and incremental: the runner feeds bytes as they arrive, and what comes out does not
depend on how they were cut into chunks. Cleaned text holds no control characters but
newline and tab, and a lone carriage return, which means: the current line starts anew.
"""

# A control string (OSC, DCS, …) is dropped only when its end is found within this many
# characters and on the same line: a stray introducer must not swallow what follows it.
_LONGEST_STRING = 4096
_LONGEST_OPEN_LINE = 64 * 1024

_CSI = r"\[[0-?]{0,64}+[ -/]{0,16}+"
_STRING = rf"[PX\]^_][^\x00-\x1f\x7f]{{0,{_LONGEST_STRING}}}+"
_OTHER = r"[ -/]{0,16}+"
_SEQUENCE = re.compile(rf"\x1b(?:{_CSI}[@-~]?|{_STRING}(?:\x07|\x1b\\)|{_OTHER}[0-~]?)")
_UNFINISHED = re.compile(rf"\x1b(?:{_CSI}|{_STRING}\x1b?|{_OTHER})\Z")
_LONGEST_UNFINISHED = _LONGEST_STRING + 8
_EIGHT_BIT = re.compile(r"[\x80-\x9f]")
_SPECIAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_RETURNS = re.compile(r"\r{2,}")
_REDRAWN = re.compile(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)


class TextCleaner:
    """Turns the bytes of one stream into cleaned text, chunk by chunk.

    UTF-8 with replacement; escape sequences and control characters go, whole or split over
    chunks. A backspace is dropped and erases nothing: what it would erase may be shown
    already. ``\\r\\n`` becomes ``\\n``; a run of lone ``\\r`` becomes one.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._unfinished = ""
        self._returned = False

    def feed(self, data: bytes) -> str:
        """The text that is certain after these bytes; what may still change is held."""
        text = self._decoder.decode(data)
        if not (self._unfinished or self._returned or _SPECIAL.search(text)):
            return text
        text = self._unfinished + _EIGHT_BIT.sub(_as_seven_bit, text)
        unfinished = _UNFINISHED.search(text, max(0, len(text) - _LONGEST_UNFINISHED))
        self._unfinished = unfinished[0] if unfinished else ""
        return self._clean(text.removesuffix(self._unfinished))

    def finish(self) -> str:
        """The text that was held. The cleaner is then as new."""
        text = self._clean(self._unfinished + self._decoder.decode(b"", final=True))
        if self._returned:
            text += "\r"
        self._decoder.reset()
        self._unfinished, self._returned = "", False
        return text

    def _clean(self, text: str) -> str:
        text = _CONTROLS.sub("", _SEQUENCE.sub("", text))
        if self._returned:
            text = "\r" + text
        text = _RETURNS.sub("\r", text).replace("\r\n", "\n")
        self._returned = text.endswith("\r")
        return text.removesuffix("\r")


def _as_seven_bit(control: re.Match[str]) -> str:
    return "\x1b" + chr(ord(control[0]) - 0x40)


def clean_text(text: str) -> str:
    """One whole text, cleaned as a stream is; a lone surrogate becomes ``?``."""
    cleaner = TextCleaner()
    return cleaner.feed(text.encode("utf-8", "replace")) + cleaner.finish()


class HeadTail:
    """Keeps the first and the last ``cap_bytes`` of a text (as UTF-8), counts the rest."""

    def __init__(self, cap_bytes: int) -> None:
        self._cap = cap_bytes
        self._head = bytearray()
        self._head_is_full = False
        self._tail = bytearray()
        self._dropped = 0

    def add(self, text: str) -> None:
        """Appends text; memory stays bounded by a few times the cap and this text."""
        data = text.encode("utf-8", "replace")
        if not self._head_is_full:
            end = _border_before(data, self._cap - len(self._head))
            self._head += data[:end]
            self._head_is_full = end < len(data)
            data = data[end:]
        self._tail += data
        if len(self._tail) > 2 * self._cap:
            self._trim_tail()

    def kept(self) -> KeptText:
        """What was kept, cut at character borders."""
        self._trim_tail()
        start = _border_after(self._tail, 0)
        return KeptText(
            head=self._head.decode("utf-8"),
            tail=self._tail[start:].decode("utf-8"),
            omitted=self._dropped + start,
        )

    def _trim_tail(self) -> None:
        excess = max(0, len(self._tail) - self._cap)
        del self._tail[:excess]
        self._dropped += excess


class Transcript:
    """Cleaned output of both streams in arrival order, with redrawn lines collapsed.

    Keeps ``cap_bytes`` of head and of tail for stdout, for stderr, and for both together. A
    carriage return drops the open line of its stream, as soon as something is written over
    it. When the other stream writes, the open line gets its line end in the combined output
    at once: unbuffered programs write a text and its line end apart, and the other stream
    may come in between. An open line of more than 64 Ki characters is final.
    """

    def __init__(self, cap_bytes: int) -> None:
        self._open = {"stdout": _OpenLine(), "stderr": _OpenLine()}
        self._kept = {"stdout": HeadTail(cap_bytes), "stderr": HeadTail(cap_bytes)}
        self._open_output = _OpenLine()
        self._output = HeadTail(cap_bytes)
        self._writer = ""
        self._ended_for = (
            ""  # the stream whose line end is in the combined output already
        )

    def add(self, stream: str, text: str) -> None:
        """Appends cleaned text of ``stdout`` or ``stderr``; KeyError for another name."""
        if not text:
            return
        self._kept[stream].add(self._open[stream].add(text))
        if stream != self._writer:
            self._end_open_line()
            self._writer = stream
        if stream == self._ended_for:
            text = text.removeprefix("\n")
            self._ended_for = ""
        self._output.add(self._open_output.add(text))

    def _end_open_line(self) -> None:
        line = self._open_output.take()
        if line:
            self._output.add(line + "\n")
            self._ended_for = self._writer

    def finish(self) -> tuple[KeptText, KeptText, KeptText]:
        """stdout, stderr, and both together; lines that were still open are shown."""
        for stream, line in self._open.items():
            self._kept[stream].add(line.take())
        self._output.add(self._open_output.take())
        return (
            self._kept["stdout"].kept(),
            self._kept["stderr"].kept(),
            self._output.kept(),
        )


class _OpenLine:
    """The unfinished last line of a text, which a carriage return may still drop."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self._returned = False

    def add(self, text: str) -> str:
        """Takes text in; gives what is now final."""
        if self._returned:
            text = "\r" + text
        returned = text.endswith("\r")
        if "\r" in text:
            text = _REDRAWN.sub("", self.take() + text).replace("\r", "")
        end = text.rfind("\n") + 1
        final = self.take() + text[:end] if end else ""
        self._parts.append(text[end:])
        self._size += len(text) - end
        if self._size > _LONGEST_OPEN_LINE:
            final += self.take()
        self._returned = returned
        return final

    def take(self) -> str:
        """The open line, which is then empty."""
        line = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        self._returned = False
        return line


def shorten(text: KeptText, budget_bytes: int) -> KeptText:
    """The same text cut to ``budget_bytes`` of head and tail together, at line ends where
    one is near. What is left out is added to ``omitted``; unchanged when it fits."""
    head, tail = text.head.encode("utf-8", "replace"), text.tail.encode(
        "utf-8", "replace"
    )
    size, budget = len(head) + len(tail), max(0, budget_bytes)
    if size <= budget:
        return text
    if not text.omitted:
        head = tail = head + tail
    head = head[: _line_end_before(head, max(budget // 2, budget - len(tail)))]
    tail = tail[_line_start_after(tail, len(tail) + len(head) - budget) :]
    return KeptText(
        head=head.decode("utf-8"),
        tail=tail.decode("utf-8"),
        omitted=text.omitted + size - len(head) - len(tail),
    )


def _border_before(data: bytes | bytearray, index: int) -> int:
    if index >= len(data):
        return len(data)
    while index > 0 and data[index] & 0xC0 == 0x80:
        index -= 1
    return index


def _border_after(data: bytes | bytearray, index: int) -> int:
    while index < len(data) and data[index] & 0xC0 == 0x80:
        index += 1
    return index


def _line_end_before(data: bytes, index: int) -> int:
    end = _border_before(data, index)
    newline = data.rfind(b"\n", end - end // 4, end)
    return newline + 1 if newline >= 0 and end < len(data) else end


def _line_start_after(data: bytes, index: int) -> int:
    if index <= 0:
        return 0
    start = _border_after(data, index)
    near = (len(data) - start) // 4
    newline = data.find(b"\n", start - 1, start + near)
    return newline + 1 if newline >= 0 else start


# ===== end sandbox_core/streams.py =====

# ===== begin sandbox_core/visible.py =====

"""Text from a program with what hides or turns other text made visible."""

# Characters that turn the text around them, hide in it, or end a line for some readers.
_DECEPTIVE = re.compile("[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def visible_text(text: str) -> str:
    """Cleaned text with deceptive characters written out, as ``\\u202e``."""
    text = clean_text(text).replace("\r", "\n")
    return _DECEPTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible_kept(text: KeptText) -> KeptText:
    """As visible_text, for both ends of a kept text."""
    return KeptText(visible_text(text.head), visible_text(text.tail), text.omitted)


# ===== end sandbox_core/visible.py =====

# ===== begin owui_plugin/render.py =====

"""A run's result as Markdown for people, and how it is found again in a message.

What comes from the program is shown letter for letter inside a fence that it cannot
close. Outside of a fence everything is escaped.
"""

_HEADING = "**Run code** · "
_VALUE_LABEL = "Value:"
_NOTHING_PRINTED = "The program printed nothing."
_INTERRUPTED = "The run was interrupted by a restart of Open WebUI. Start it again."

_OUTCOME_WORDS = {
    Outcome.SANDBOX_ERROR: "could not run",
    Outcome.CANCELLED: "stopped",
    Outcome.MEMORY_LIMIT: "memory limit",
    Outcome.TIMEOUT: "timed out",
    Outcome.OUTPUT_LIMIT: "output limit",
    Outcome.PROCESS_LIMIT: "process limit",
    Outcome.DISK_LIMIT: "disk limit",
    Outcome.COMPILE_ERROR: "does not compile",
    Outcome.FAILED: "failed",
    Outcome.OK: "ok",
}

# Open WebUI shows entities such as `&amp;` as they are, so it must be backslashes. But it
# takes `\(` and `\[` for formulas, and breaks lines before `\\b`: links are broken at their
# `]` alone, and a backslash of the text becomes a character that looks like one.
_MARKDOWN = re.compile(r"[`*_{\]<>#|~$&]|^[-+=:]")
_LIST_NUMBER = re.compile(r"^\d+(?=[.)])")
_BACKSLASH_LIKE = "\u2216"  # of the look-alikes the one that most fonts have
_BACKTICKS = re.compile(r"`{3,}")

_FENCE_PATTERN = r"(`{3,})text\n(?:[^\n]*\n)*?\1[ \t]*(?=\n|\Z)"
_RESULT = re.compile(
    rf"^{re.escape(_HEADING)}[^\n]*(?:\n(?![ \t]*\n|[^\n]*(?:`{{3}}|~{{3}}))[^\n]+)*"
    rf"(?:\n+(?:{_VALUE_LABEL}\n+)?{_FENCE_PATTERN})*",
    re.MULTILINE,
)


def escape_markdown(text: str) -> str:
    """Any text as one line of Markdown that shows it and does nothing else.

    Not letter for letter: white space is one blank, a backslash a look-alike.
    """
    line = " ".join(visible_text(text).split()).replace("\\", _BACKSLASH_LIKE)
    return _LIST_NUMBER.sub(r"\g<0>\\", _MARKDOWN.sub(r"\\\g<0>", line))


def fenced(text: str) -> str:
    """Text in a fence that is longer than any inside it; ends with a line end."""
    shown = visible_text(text)
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=2)
    fence = "`" * (longest + 1)
    end = "" if shown.endswith("\n") else "\n"
    return f"{fence}text\n{shown}{end}{fence}\n"


def render_for_chat(
    result: RunResult,
    label: str,
    shown_bytes: int = 64 * 1024,
    notes: Sequence[str] = (),
) -> str:
    """Markdown to append to the answer. ``label`` names what ran, in words of ours.

    ``shown_bytes`` limits output and value each, in bytes of UTF-8. ``notes`` come after
    those of the result, one line each.
    """
    told = [escape_markdown(line) for line in (result.message, *result.notes, *notes)]
    lines = [told[0], hint_for(result), *told[1:]]
    output = str(shorten(visible_kept(result.output), shown_bytes))
    silent = not (output or result.value or result.displays)
    if silent and result.outcome is Outcome.OK:
        lines.append(_NOTHING_PRINTED)
    parts = [result_section(f"{label} · {_result_ending(result)}", lines)]
    if output:
        parts.append(fenced(output))
    if result.value:
        value = shorten(KeptText(visible_text(result.value)), shown_bytes)
        parts.append(f"{_VALUE_LABEL}\n\n{fenced(str(value))}")
    return "\n".join(parts)


def result_section(heading: str, lines: Iterable[str]) -> str:
    """The head of a part of a result: our heading, and lines of Markdown right under it."""
    shown = [line for line in lines if line]
    return "\n".join(["", _HEADING + heading, *shown, ""])


def running_text(label: str, preview: str = "") -> str:
    """Markdown for a run that has begun, to be replaced by its result; ``preview`` is the
    end of its output so far."""
    text = result_section(f"{label} · running…", [])
    return f"{text}\n{fenced(preview)}" if preview else text


def interrupted_text() -> str:
    """Markdown for a run that a restart of Open WebUI cut off."""
    return result_section("interrupted", [_INTERRUPTED])


def strip_results(markdown: str) -> str:
    """The text without the result sections that this module once appended to it."""
    return _RESULT.sub("", markdown)


def _result_ending(result: RunResult) -> str:
    words = _OUTCOME_WORDS[result.outcome]
    if result.outcome is Outcome.FAILED and result.shell_exit_code is not None:
        words += f" (exit {result.shell_exit_code})"
    # A run that never began took no time.
    return f"{words} · {result.seconds:.2f} s" if result.seconds else words


# ===== end owui_plugin/render.py =====

# ===== begin sandbox_core/language.py =====

"""What is known of one language: how it is recognised, written to a file, compiled and run."""


@dataclass(frozen=True, slots=True)
class SelfTest:
    """A program and exactly what it must print to stdout."""

    code: str
    expected_stdout: str


@dataclass(frozen=True, slots=True)
class Variant:
    """How programs in which ``pattern`` is found differ; what is empty does not."""

    pattern: str
    file_name: str = ""
    compile_argv: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """What the sandbox starts for one program. ``compile_argv`` is empty where nothing is
    compiled; ``needs`` is the program without which none of it works."""

    compile_argv: tuple[str, ...]
    argv: tuple[str, ...]
    needs: str


@dataclass(frozen=True, slots=True)
class Language:
    """How one language is recognised, written to a file, compiled and run.

    In ``argv`` and ``compile_argv``, ``{source}`` is the path of the program's file, ``{build}``
    that of a folder for what a compiler makes, and ``{entry}`` the class to start, by
    ``entry_patterns`` (group 1 of the first that is found) and ``package_pattern``.
    ``version_argv`` tells the version, and its first word is what an image must have;
    ``image`` names the smallest of our images that has it, where the version begins with
    ``version``.
    ``waiting`` names the interpreter of a warm sandbox that can run it, see SandboxSpec.
    ``joins``: consecutive blocks are joined into one program, as a reader expects of an
    interpreted language; a block in which ``alone_pattern`` is found is joined to nothing
    before it. ``interpreters`` are the program names that may stand in a ``#!`` line.
    ``transcripts`` are the fence words whose blocks hold prompts and output; ``prompts`` finds
    a prompted line there (group 1 is the command) and ``continuation`` its following lines
    (group 1 likewise); ``here_documents``: a command may go on until the word that it names
    after ``<<``. ``line_reference`` finds the program's own line numbers (group 1) in its
    error output and in the compiler's. ``file_pattern``: group 1 of it names the file.
    """

    name: str
    title: str
    aliases: tuple[str, ...]
    file_name: str
    argv: tuple[str, ...]
    version_argv: tuple[str, ...]
    self_test: SelfTest
    image: str
    version: str
    compile_argv: tuple[str, ...] = ()
    joins: bool = True
    alone_pattern: str = ""
    launched: bool = False
    waiting: str = ""
    interpreters: tuple[str, ...] = ()
    transcripts: tuple[str, ...] = ()
    prompts: str = ""
    continuation: str = ""
    here_documents: bool = False
    line_reference: str = ""
    file_pattern: str = ""
    entry_patterns: tuple[str, ...] = ()
    package_pattern: str = ""
    variant: Variant | None = None

    def file_for(self, code: str) -> str:
        """Name of the file that holds this code, relative to the work folder."""
        variant = self._variant_of(code)
        if variant and variant.file_name:
            return variant.file_name
        named = _first_group((self.file_pattern,), code)
        return (
            named + self.file_name[self.file_name.rindex(".") :]
            if named
            else self.file_name
        )

    def command_for(self, code: str, source: str, build: str) -> Command:
        """The command for this code in the file ``source``, both paths in the sandbox."""
        variant = self._variant_of(code)
        argv, compile_argv = self.argv, self.compile_argv
        if variant:
            argv = variant.argv or argv
            compile_argv = variant.compile_argv or compile_argv
        entry = self._entry_of(code)

        def filled(parts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(
                part.replace("{source}", source)
                .replace("{build}", build)
                .replace("{entry}", entry)
                for part in parts
            )

        return Command(filled(compile_argv), filled(argv), self.version_argv[0])

    def _entry_of(self, code: str) -> str:
        package = _first_group((self.package_pattern,), code)
        entry = _first_group(self.entry_patterns, code)
        return ".".join(filter(None, (package, entry)))

    def _variant_of(self, code: str) -> Variant | None:
        found = self.variant and re.search(self.variant.pattern, code, re.MULTILINE)
        return self.variant if found else None


def _first_group(patterns: tuple[str, ...], code: str) -> str:
    """Group 1 of the first pattern that is found; empty when none is."""
    for pattern in patterns:
        found = re.search(pattern, code, re.MULTILINE) if pattern else None
        if found:
            return str(found[1])
    return ""


# ===== end sandbox_core/language.py =====

# ===== begin owui_plugin/transcripts.py =====

"""Terminal transcripts: blocks that hold prompts, commands and output.

Only prompted commands run. A command goes on in lines with a continuation prompt, after a
backslash at its end, and up to the end word of its here-document.
"""

_HERE_DOCUMENT = re.compile(r"(?<!<)<<(-?)[ \t]*(['\"]?)(\w+)\2")
_OPEN_BACKSLASH = re.compile(r"(?<!\\)(?:\\\\)*\\$")


def begins_with_prompt(language: Language, text: str) -> bool:
    """Whether the first line that is not blank is a prompted one; as a program of that
    language it could only fail."""
    first = next((line for line in text.split("\n") if line.strip()), "")
    return bool(language.prompts and re.match(language.prompts, first))


def prompted_commands(language: Language, text: str) -> str:
    """The commands of a transcript as one program; empty when nothing is prompted.

    Each line of it is where it was in the block, so that line numbers still fit: output
    lines are blank.
    """
    lines = text.split("\n")
    program = [""] * len(lines)
    index = 0
    while index < len(lines):
        prompted = re.match(language.prompts, lines[index])
        if not prompted:
            index += 1
            continue
        program[index] = prompted[1] or ""
        index = _copy_rest(language, lines, program, index)
    return "\n".join(program).rstrip("\n") + "\n" if any(program) else ""


def _copy_rest(
    language: Language, lines: list[str], program: list[str], first: int
) -> int:
    """Copies what belongs to the command at ``first``; gives the index after it."""
    index = first + 1
    while index < len(lines):
        end = _here_document_end(language, lines, program, index)
        continued = re.match(language.continuation, lines[index])
        if end:
            prefixed = re.match(language.continuation, lines[end - 1]) is not None
            for inner in range(index, end):
                program[inner] = _inner_line(language, lines[inner], prefixed)
            index = end
        elif continued:
            program[index] = continued[1] or ""
            index += 1
        elif _OPEN_BACKSLASH.search(program[index - 1]):
            program[index] = lines[index]
            index += 1
        else:
            break
    return index


def _here_document_end(
    language: Language, lines: list[str], program: list[str], index: int
) -> int:
    """Index after the here-document that the line before ``index`` opens; 0 if none."""
    opening = _HERE_DOCUMENT.search(program[index - 1])
    if not (language.here_documents and opening):
        return 0
    for later in range(index, len(lines)):
        if re.match(language.prompts, lines[later]):
            return 0
        line = _inner_line(language, lines[later], prefixed=True)
        if (line.lstrip("\t") if opening[1] else line) == opening[3]:
            return later + 1
    return 0


def _inner_line(language: Language, line: str, prefixed: bool) -> str:
    continued = re.match(language.continuation, line) if prefixed else None
    return (continued[1] or "") if continued else line


# ===== end owui_plugin/transcripts.py =====

# ===== begin sandbox_core/images.py =====

"""The sandbox images of this project, and what can be told of an image by its name alone."""

SLIM_IMAGE = "run-code-slim"
PYTHON_IMAGE = "run-code-python"
DATA_IMAGE = "run-code-data"
FULL_IMAGE = "run-code-full"


def image_name(image: str) -> str:
    """The name without registry, tag and digest."""
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def may_have_language(image: str, language: Language) -> bool:
    """Whether this image can have this language: of ours it is known, of others a sandbox has
    to be asked."""
    name = image_name(image)
    if name not in (SLIM_IMAGE, PYTHON_IMAGE, DATA_IMAGE):
        return True
    return language.image != FULL_IMAGE


# ===== end sandbox_core/images.py =====

# ===== begin sandbox_core/languages_compiled.py =====

"""The languages that are compiled before they run: one record each, see Language.

Compilers optimise little: a program of a chat runs once, and most of the time is theirs.
"""

_BY_LINE_OF_C = ("stdbuf", "-oL")
# One thread for garbage and one compiler: a JVM starts in half the time, and fits.
_SMALL_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

_JAVA_TYPE = r"(?:(?:public|final|abstract|sealed|strictfp)\s+)*(?:class|interface|enum|record)\s+"

C_LANGUAGE = Language(
    name="c",
    title="C",
    aliases=("gcc",),
    file_name="main.c",
    compile_argv=("gcc", "-O1", "-pthread", "-o", "{build}/main", "{source}", "-lm"),
    argv=(*_BY_LINE_OF_C, "{build}/main"),
    version_argv=("gcc", "--version"),
    self_test=SelfTest(
        "#include <stdio.h>\n#include <math.h>\n"
        'int main(void) { printf("%.1f\\n", sqrt(20.25)); return 0; }\n',
        "4.5\n",
    ),
    image=FULL_IMAGE,
    version="12.2",
    joins=False,
    line_reference=r"main\.c:(\d+)",
)

CPP = Language(
    name="cpp",
    title="C++",
    aliases=("c++", "cxx", "cc", "hpp", "g++"),
    file_name="main.cpp",
    compile_argv=(
        "g++",
        "-std=gnu++20",
        "-O1",
        "-pthread",
        "-o",
        "{build}/main",
        "{source}",
    ),
    argv=(*_BY_LINE_OF_C, "{build}/main"),
    version_argv=("g++", "--version"),
    self_test=SelfTest(
        "#include <iostream>\n#include <numeric>\n#include <vector>\n"
        "int main() {\n  std::vector<int> v{1, 2, 3};\n"
        "  std::cout << std::accumulate(v.begin(), v.end(), 0) << std::endl;\n}\n",
        "6\n",
    ),
    image=FULL_IMAGE,
    version="12.2",
    joins=False,
    line_reference=r"main\.cpp:(\d+)",
)

GO = Language(
    name="go",
    title="Go",
    aliases=("golang",),
    file_name="main.go",
    compile_argv=("go", "build", "-o", "{build}/main", "{source}"),
    argv=("{build}/main",),
    version_argv=("go", "version"),
    self_test=SelfTest(
        'package main\n\nimport "fmt"\n\nfunc main() {\n\tfmt.Println(1 << 10)\n}\n',
        "1024\n",
    ),
    image=FULL_IMAGE,
    version="1.19",
    joins=False,
    line_reference=r"main\.go:(\d+)",
)

RUST = Language(
    name="rust",
    title="Rust",
    aliases=("rs",),
    file_name="main.rs",
    compile_argv=(
        "rustc",
        "--edition=2021",
        "-Copt-level=1",
        "-o",
        "{build}/main",
        "{source}",
    ),
    argv=("{build}/main",),
    version_argv=("rustc", "--version"),
    self_test=SelfTest(
        'fn main() {\n    let n: u32 = (1..=4).product();\n    println!("{}", n);\n}\n',
        "24\n",
    ),
    image=FULL_IMAGE,
    version="1.63",
    joins=False,
    line_reference=r"main\.rs:(\d+)",
)

JAVA = Language(
    name="java",
    title="Java",
    aliases=("jdk",),
    file_name="main.java",
    compile_argv=(
        "javac",
        *(f"-J{option}" for option in _SMALL_JVM),
        "-encoding",
        "UTF-8",
        "-d",
        "{build}",
        "{source}",
    ),
    argv=("java", *_SMALL_JVM, "-XX:MaxRAMPercentage=40", "-cp", "{build}", "{entry}"),
    version_argv=("javac", "--version"),
    self_test=SelfTest(
        "record Pair(int a, int b) {}\n\npublic class Sum {\n"
        "    public static void main(String[] args) {\n"
        "        var pair = new Pair(40, 2);\n"
        "        System.out.println(pair.a() + pair.b());\n    }\n}\n",
        "42\n",
    ),
    image=FULL_IMAGE,
    version="17",
    joins=False,
    line_reference=r"\w+\.java:(\d+)",
    # The compiler wants a public class in a file of its name.
    file_pattern=r"^public\s+" + _JAVA_TYPE + r"(\w+)",
    # The type with the main method; else the first.
    entry_patterns=(
        rf"^{_JAVA_TYPE}(\w+)(?:(?!^{_JAVA_TYPE})[\s\S])*?\bstatic\s+(?:final\s+)?void\s+main\b",
        rf"^{_JAVA_TYPE}(\w+)",
    ),
    package_pattern=r"^\s*package\s+([\w.]+)\s*;",
)

KOTLIN = Language(
    name="kotlin",
    title="Kotlin",
    aliases=("kt", "kts"),
    file_name="main.kt",
    compile_argv=(
        "kotlinc",
        *(f"-J{option}" for option in _SMALL_JVM),
        "-nowarn",
        "-include-runtime",
        "-d",
        "{build}/main.jar",
        "{source}",
    ),
    argv=("java", *_SMALL_JVM, "-XX:MaxRAMPercentage=40", "-jar", "{build}/main.jar"),
    version_argv=("kotlinc", "-version"),
    self_test=SelfTest(
        "fun main() {\n    println((1..3).map { it * it })\n}\n", "[1, 4, 9]\n"
    ),
    image=FULL_IMAGE,
    version="1.3",
    joins=False,
    line_reference=r"main\.kt:(\d+)",
)

# ===== end sandbox_core/languages_compiled.py =====

# ===== begin sandbox_core/languages_interpreted.py =====

"""The languages that need no compiler: one record each, see Language."""

# At the left margin only: `await` inside a function says nothing about the file.
_AWAIT = r"^(?:(?:const|let|var)\s[^\n]*=\s*await\s|await\s|for\s+await\s*\()"

# Programs over C's own output hold it back when it goes into a pipe.
_BY_LINE = ("stdbuf", "-oL")
_ESBUILD = (
    "esbuild",
    "{source}",
    "--bundle",
    "--platform=node",
    "--packages=external",
    "--sourcemap=inline",
    "--log-level=warning",
    "--color=false",
)

PYTHON = Language(
    name="python",
    title="Python",
    aliases=("py", "python3", "py3", "ipython", "ipython3"),
    file_name="main.py",
    argv=("python3", "{source}"),
    version_argv=("python3", "--version"),
    self_test=SelfTest("print(sum(range(10)))\n", "45\n"),
    image=SLIM_IMAGE,
    version="3.11",
    # A file of its own (`__future__` imports must come first in it), or an excerpt that
    # would become part of whatever is before it.
    alone_pattern=r"^from __future__ import|\A(?:[ \t]*\n)*[ \t]+\S",
    launched=True,
    waiting="python",
    interpreters=("python", "python3"),
    transcripts=("pycon", "python-console", "python-repl", "doctest"),
    prompts=r"^>>>(?: (.*))?$",
    continuation=r"^\.\.\.(?: (.*))?$",
    line_reference=r'File "[^"\n]*/main\.py", line (\d+)',
)

# A bare "# " is no prompt: it may as well be a comment, and a comment must not run. Root's
# prompt counts where a user, a folder or a shell name stands before it.
_SHELL_PROMPT = (
    r"^(?:\([\w.-]+\) ?)?"
    r"(?:\$"
    r"|[\w.-]+@[\w.-]+:[~/][^$%#>\n]*[$#%]"
    r"|[\w.-]+@[\w.-]+ [\w~/.-]+ [$#%]"
    r"|\[[\w.-]+@[\w.-]+ [^\]\n]*\][$#]"
    r"|(?:ba|z)?sh-[\d.]+[$#])"
    r"(?: (.*))?$"
)

BASH = Language(
    name="bash",
    title="Bash",
    aliases=("sh", "shell", "zsh", "dash", "ksh"),
    file_name="main.sh",
    argv=("bash", "{source}"),
    version_argv=("bash", "--version"),
    self_test=SelfTest(
        'for i in 1 2 3; do printf "%s-" "$i"; done; echo\n', "1-2-3-\n"
    ),
    image=SLIM_IMAGE,
    version="5.2",
    interpreters=("bash", "sh", "dash", "zsh", "ksh"),
    transcripts=(
        "console",
        "shell-session",
        "shellsession",
        "sh-session",
        "bash-session",
        "terminal",
    ),
    prompts=_SHELL_PROMPT,
    continuation=r"^>(?: (.*))?$",
    here_documents=True,
    line_reference=r"main\.sh: line (\d+)",
)

JAVASCRIPT = Language(
    name="javascript",
    title="JavaScript (node)",
    aliases=("js", "node", "nodejs", "mjs", "cjs"),
    file_name="main.js",
    argv=("node", "{source}"),
    version_argv=("node", "--version"),
    self_test=SelfTest(
        "console.log([1, 2, 3].map((x) => x * x).join(' '));\n", "1 4 9\n"
    ),
    image=SLIM_IMAGE,
    version="18",
    waiting="node",
    interpreters=("node", "nodejs"),
    line_reference=r"main\.m?js:(\d+)",
    variant=Variant(
        r"^(?:import\s*[*{'\"]|import\s+\w|export\s*[*{]|export\s+\w)|" + _AWAIT,
        file_name="main.mjs",
    ),
)

TYPESCRIPT = Language(
    name="typescript",
    title="TypeScript (node)",
    aliases=("ts", "mts", "cts"),
    file_name="main.ts",
    # Bundled, so that a program may import other files of its folder. Types are not checked.
    compile_argv=(*_ESBUILD, "--format=cjs", "--outfile={build}/main.cjs"),
    argv=("node", "--enable-source-maps", "{build}/main.cjs"),
    version_argv=("esbuild", "--version"),
    self_test=SelfTest(
        "const squares: number[] = [1, 2, 3].map((x: number) => x * x);\n"
        "console.log(squares.join(' '));\n",
        "1 4 9\n",
    ),
    image=FULL_IMAGE,
    version="0.17",
    line_reference=r"main\.m?ts:(\d+)",
    variant=Variant(
        _AWAIT + r"|\bimport\.meta\b",
        file_name="main.mts",
        compile_argv=(*_ESBUILD, "--format=esm", "--outfile={build}/main.mjs"),
        argv=("node", "--enable-source-maps", "{build}/main.mjs"),
    ),
)

RUBY = Language(
    name="ruby",
    title="Ruby",
    aliases=("rb", "irb"),
    file_name="main.rb",
    # Output must not wait in Ruby's own buffer, and there is no switch for that.
    argv=("ruby", "-e", "$stdout.sync = true; load($0 = ARGV.shift)", "{source}"),
    version_argv=("ruby", "--version"),
    self_test=SelfTest("puts (1..4).map { |x| x * x }.sum\n", "30\n"),
    image=FULL_IMAGE,
    version="3.1",
    interpreters=("ruby",),
    line_reference=r"main\.rb:(\d+)",
)

PHP = Language(
    name="php",
    title="PHP",
    aliases=(),
    file_name="main.php",
    argv=("php", "{source}"),
    version_argv=("php", "--version"),
    self_test=SelfTest("<?php\necho array_sum([1, 2, 3]), PHP_EOL;\n", "6\n"),
    image=FULL_IMAGE,
    version="8.2",
    # Each block has its own opening tag.
    joins=False,
    interpreters=("php",),
    line_reference=r"main\.php(?::| on line )(\d+)",
    # Without any tag it is meant as code all the same, and not as text to print.
    variant=Variant(
        r"\A(?![\s\S]*<\?)",
        argv=("php", "-r", "eval(file_get_contents($argv[1]));", "{source}"),
    ),
)

PERL = Language(
    name="perl",
    title="Perl",
    aliases=("pl",),
    file_name="main.pl",
    argv=("perl", "-Mvars;$|=1", "{source}"),
    version_argv=("perl", "--version"),
    self_test=SelfTest('my $n = 0; $n += $_ for 1 .. 4; print "$n\\n";\n', "10\n"),
    image=SLIM_IMAGE,
    version="5.36",
    interpreters=("perl",),
    line_reference=r"main\.pl line (\d+)",
)

LUA = Language(
    name="lua",
    title="Lua",
    aliases=("luajit",),
    file_name="main.lua",
    argv=(*_BY_LINE, "lua", "{source}"),
    version_argv=("lua", "-v"),
    self_test=SelfTest("print(6 * 7)\n", "42\n"),
    image=FULL_IMAGE,
    version="5.4",
    interpreters=("lua", "luajit"),
    line_reference=r"main\.lua:(\d+)",
)

R_LANGUAGE = Language(
    name="r",
    title="R",
    aliases=("rscript", "rlang"),
    file_name="main.R",
    argv=("Rscript", "--vanilla", "{source}"),
    version_argv=("Rscript", "--version"),
    self_test=SelfTest('cat(mean(c(1, 2, 6)), "\\n", sep = "")\n', "3\n"),
    image=FULL_IMAGE,
    version="4.2",
    interpreters=("rscript",),
    line_reference=r"main\.R:(\d+)",
)

SQL = Language(
    name="sql",
    title="SQL (SQLite)",
    aliases=("sqlite", "sqlite3"),
    file_name="main.sql",
    argv=(
        *_BY_LINE,
        "sqlite3",
        "-batch",
        "-bail",
        "-box",
        ":memory:",
        ".read {source}",
    ),
    version_argv=("sqlite3", "--version"),
    self_test=SelfTest(
        "CREATE TABLE t (n INT);\nINSERT INTO t VALUES (1), (2);\n"
        "SELECT sum(n) AS total FROM t;\n",
        "┌───────┐\n│ total │\n├───────┤\n│ 3     │\n└───────┘\n",
    ),
    image=SLIM_IMAGE,
    version="3.40",
    line_reference=r"near line (\d+)",
)

# ===== end sandbox_core/languages_interpreted.py =====

# ===== begin sandbox_core/languages.py =====

"""The languages that a sandbox can run, and how they are found by name.

The same records feed the block parser, the tools, the doctor, the docs and the tests. An
administrator can add some (language_records.py); they are known in the whole process.
"""

LANGUAGES = (
    PYTHON,
    BASH,
    JAVASCRIPT,
    TYPESCRIPT,
    C_LANGUAGE,
    CPP,
    GO,
    RUST,
    JAVA,
    KOTLIN,
    RUBY,
    PHP,
    PERL,
    LUA,
    R_LANGUAGE,
    SQL,
)


class _KnownLanguages:
    """Records, and the words by which they are found."""

    def __init__(self, languages: tuple[Language, ...]) -> None:
        self.languages = languages
        self.by_word = {
            word: entry for entry in languages for word in (entry.name, *entry.aliases)
        }
        self.by_transcript = {
            word: entry for entry in languages for word in entry.transcripts
        }
        self.by_interpreter = {
            word: entry for entry in languages for word in entry.interpreters
        }


# One entry, replaced as a whole: a thread that looks something up sees the old one or the new one.
_in_use = [_KnownLanguages(LANGUAGES)]
_VERSIONED = re.compile(r"([a-z+]+)\d+(?:\.\d+)*")
_INTERPRETER_LINE = re.compile(
    r"#![ \t]*(?:\S*/)?(?:env[ \t]+(?:(?:-\S+|\w+=\S*)[ \t]+)*(?:\S*/)?)?([^\s/]+)"
)


def known_languages() -> tuple[Language, ...]:
    """All languages, the added ones last."""
    return _in_use[0].languages


def use_added_languages(added: Sequence[Language]) -> None:
    """From now on these are known, too, in place of those added before."""
    languages = (*LANGUAGES, *added)
    if languages != known_languages():
        _in_use[0] = _KnownLanguages(languages)


def find_language(word: str) -> Language | None:
    """The language that a fence word or alias means, case-blind; None when there is none.

    A version after the word is fine (``python3.12``); a longer word is not (``pythonic``).
    """
    return _find_word(_in_use[0].by_word, word)


def find_transcript(word: str) -> Language | None:
    """The language whose prompts a fence word announces (``console``), case-blind."""
    return _in_use[0].by_transcript.get(word.strip().lower())


def find_interpreter(code: str) -> Language | None:
    """The language of the ``#!`` line that the code begins with; None when there is none
    or its interpreter is not known here."""
    line = _INTERPRETER_LINE.match(code)
    return _find_word(_in_use[0].by_interpreter, line[1]) if line else None


def language_named(word: str) -> Language:
    """As find_language, but raises InvalidRequest, naming what there is, when unknown."""
    language = find_language(word)
    if language is None:
        names = ", ".join(entry.name for entry in known_languages())
        raise InvalidRequest(
            f"There is no language “{word[:40]}” here. Use one of: {names}."
        )
    return language


def _find_word(table: dict[str, Language], word: str) -> Language | None:
    lowered = word.strip().lower()
    if lowered in table:
        return table[lowered]
    versioned = _VERSIONED.fullmatch(lowered)
    return table.get(versioned[1]) if versioned else None


# ===== end sandbox_core/languages.py =====

# ===== begin owui_plugin/blocks.py =====

"""The code blocks of a message, and which of them can run.

A CommonMark parser finds the fences. Never run: what Open WebUI recorded in the text
(reasoning, tool calls, code interpreter), our own earlier results, block quotes (they hold
somebody else's text), HTML comments, indented code, and code in the middle of a sentence.
"""

NOT_CLOSED_NOTE = "The block was not closed; the answer may be cut."
INSTALLS_OFF_NOTE = "Installing packages is off, so the block that does it was not run."

_FIRST_LINE_WIDTH = 60

_LINE_END = re.compile(r"\r\n?")
_TAG_WORD = re.compile(r"\{?\s*\.?(\w[\w.+#-]*)")
_CLASS_WORD = re.compile(r"\{[^}]*?\.(\w[\w+-]*)")

_DETAILS_LINE = re.compile(r"</?(?:details|summary)\b", re.IGNORECASE)
_DETAILS_TAG = re.compile(
    r"<details\b(?:(?:[^>\"']|\"[^\"]*\"|'[^']*')*+(?:>|\Z)|[^>]*(?:>|\Z))|</details\s*>",
    re.IGNORECASE,
)
_TYPE_ATTRIBUTE = re.compile(r"\stype\s*=", re.IGNORECASE)

_INSTALL_COMMAND = re.compile(
    r"(?:sudo\s+)?[!%]?\s*(?:"
    r"(?:python[\d.]*\s+-m\s+)?pip[\d.]*\s+install|uv\s+(?:pip\s+install|add)"
    r"|(?:conda|mamba)\s+install|npm\s+(?:install|i|ci|add)|yarn\s+add"
    r"|pnpm\s+(?:add|install|i)|(?:apt|apt-get)\s+(?:-\S+\s+)*(?:install|update|upgrade)"
    r"|apk\s+add|(?:dnf|yum|brew)\s+install)\b"
)
_COMMAND_END = re.compile(r"\n|&&|;")


class MissingPackage(SandboxError):
    """A Python package that this plugin needs is not installed where it runs."""


class BlockKind(StrEnum):
    """What may be done with a block: run it, ask for its language first, or neither."""

    RUN = "run"
    ASK = "ask"
    NO = "no"


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """One fenced block. ``number`` counts the blocks of its kind in the message from 1.

    ``language`` is a canonical name, or empty; ``info`` is the text after the fence.
    ``code`` is the program: for a transcript its commands. ``closed``: the fence has an
    end. ``reason`` says, for a block that would run but for that, what is wrong with it.
    """

    kind: BlockKind
    language: str
    info: str
    code: str
    closed: bool = True
    reason: str = ""
    number: int = 0

    def first_line(self) -> str:
        """The first line that is not blank, short and harmless, for a dialog."""
        lines = (line.strip() for line in self.code.split("\n"))
        line = visible_text(next(filter(None, lines), ""))
        if len(line) <= _FIRST_LINE_WIDTH:
            return line
        return line[: _FIRST_LINE_WIDTH - 1] + "…"

    def in_language(self, name: str) -> Self:
        """This block, to be run in the language that somebody picked for it."""
        return replace(self, kind=BlockKind.RUN, language=name)


def find_blocks(markdown: str) -> list[CodeBlock]:
    """All fenced blocks of a message, in order. Takes any text.

    Raises MissingPackage when markdown-it-py is not installed: one sentence for the chat.
    It is imported here and not with this module, because an import that fails while Open
    WebUI loads a plugin makes it switch the plugin off.
    """
    text = strip_results(_LINE_END.sub("\n", markdown)).rstrip("\n") + "\n"
    counts: Counter[BlockKind] = Counter()
    blocks: list[CodeBlock] = []
    quotes = 0
    for token in _markdown_parser().parse(text):
        if token.type == "blockquote_open":
            quotes += 1
        elif token.type == "blockquote_close":
            quotes -= 1
        elif token.type == "fence":
            first, end = token.map
            closed = end - first - 1 > token.content.count("\n")
            block = _read_block(token.info, token.content, quotes > 0)
            counts[block.kind] += 1
            blocks.append(replace(block, closed=closed, number=counts[block.kind]))
    return blocks


def runnable(blocks: Sequence[CodeBlock]) -> list[CodeBlock]:
    """The blocks that can run as they are."""
    return [block for block in blocks if block.kind is BlockKind.RUN]


def why_nothing_runs(blocks: Sequence[CodeBlock]) -> str:
    """One sentence for a message without a runnable block."""
    if not blocks:
        return "There is nothing to run: this message has no code block."
    reason = next((block.reason for block in blocks if block.reason), "")
    if reason:
        return f"There is nothing to run: {reason}."
    words = ", ".join(language.name for language in known_languages())
    transcripts = ", ".join(
        language.transcripts[0]
        for language in known_languages()
        if language.transcripts
    )
    return (
        "There is nothing to run: no code block has a tag that can run. These can: "
        f"{words}; and {transcripts} for lines with prompts."
    )


def blocks_label(chosen: Sequence[CodeBlock], runnable_count: int) -> str:
    """What a run is of, in a few words: ``Python``, or ``block 2 of 3, python``."""
    languages = list(dict.fromkeys(block.language for block in chosen))
    if runnable_count < 2:
        return ", ".join(_language_title(name) for name in languages)
    numbers = ", ".join(str(block.number) for block in chosen)
    if len(chosen) == runnable_count:
        numbers = f"1–{runnable_count}"
    noun = "block" if len(chosen) == 1 else "blocks"
    return f"{noun} {numbers} of {runnable_count}, {', '.join(languages)}"


def is_install(block: CodeBlock) -> bool:
    """Whether a block does nothing but install packages."""
    code = block.code.replace("\\\n", " ")
    lines = [line.strip() for line in _COMMAND_END.split(code)]
    commands = [line for line in lines if line and not line.startswith("#")]
    return bool(commands) and all(map(_INSTALL_COMMAND.match, commands))


def _language_title(name: str) -> str:
    language = find_language(name)
    return language.title if language else name


def _read_block(info: str, content: str, quoted: bool) -> CodeBlock:
    block = CodeBlock(BlockKind.NO, "", info.strip(), content)
    word = _tag_of(block.info)
    if quoted or not content.strip():
        return block
    if not block.info:
        return _read_untagged(block)
    language = find_transcript(word)
    if language:
        return _read_transcript(block, language)
    language = find_language(word)
    if not language:
        return block
    if begins_with_prompt(language, content):
        return _read_transcript(block, language)
    return block.in_language(language.name)


def _read_untagged(block: CodeBlock) -> CodeBlock:
    if not block.code.startswith("#!"):
        return replace(block, kind=BlockKind.ASK)
    language = find_interpreter(block.code)
    return block.in_language(language.name) if language else block


def _read_transcript(block: CodeBlock, language: Language) -> CodeBlock:
    commands = prompted_commands(language, block.code)
    if not commands:
        return replace(
            block,
            reason=f"in a “{_tag_of(block.info)}” block only lines with a prompt are run, "
            "and there are none",
        )
    return replace(block.in_language(language.name), code=commands)


def _tag_of(info: str) -> str:
    """The word of an info string that may name a language: ``python title="x.py"``,
    ``python:main.py``, ``{.python .numberLines}``."""
    found = _TAG_WORD.match(info) or _CLASS_WORD.match(info)
    return found[1] if found else ""


def _markdown_parser() -> Any:
    try:
        from markdown_it import MarkdownIt
    except ImportError as error:
        raise MissingPackage(
            "The package markdown-it-py is missing on this server: ask your administrator "
            "to install it, then try again."
        ) from error
    parser = MarkdownIt("commonmark").disable("inline")
    parser.block.ruler.before(
        "html_block",
        "details",
        _pass_over_details,
        {"alt": ["paragraph", "reference", "blockquote"]},
    )
    return parser


def _pass_over_details(state: Any, first: int, end: int, silent: bool) -> bool:
    """Parser rule for ``details`` tags, as Open WebUI shows them.

    One with a type is its own record: passed over with all that is in it, fences included,
    to the end of the message if it is not closed. Of any other one just the line with the
    tag is passed over, so that code inside is found without a blank line before it.
    """
    position = state.bMarks[first] + state.tShift[first]
    if state.is_code_block(first) or not _DETAILS_LINE.match(state.src, position):
        return False
    if silent:
        return True
    stop = _record_end(state.src, position)
    line = first + 1
    while line < end and state.bMarks[line] < stop:
        line += 1
    state.line = line
    return True


def _record_end(text: str, position: int) -> int:
    opening = _DETAILS_TAG.match(text, position)
    if not opening or not _TYPE_ATTRIBUTE.search(opening[0]):
        return position
    depth = 1
    for tag in _DETAILS_TAG.finditer(text, opening.end()):
        depth += -1 if tag[0].startswith("</") else 1
        if depth == 0:
            return tag.end()
    return len(text)


# ===== end owui_plugin/blocks.py =====

# ===== begin owui_plugin/messages.py =====

"""The model's own text in a stored or posted chat message, whatever its shape."""

# Ids of the items that hold our results in a message's `output` list begin so.
RESULT_ITEM_PREFIX = "msg_run_code_"


def message_text(message: Any) -> str:
    """The text that may hold code to run; empty when there is none. Takes anything.

    A message with ``output`` items is what they say: the assistant's message items, without
    reasoning, tool calls and our own results. Else ``content`` counts: a string, or parts.
    """
    if not isinstance(message, dict):
        return ""
    output = message.get("output")
    if isinstance(output, list) and output:
        texts = [
            _parts_text(item.get("content")) for item in output if _is_answer(item)
        ]
        return "\n".join(text for text in texts if text)
    return _parts_text(message.get("content"))


def _is_answer(item: Any) -> bool:
    return (
        isinstance(item, dict)
        and item.get("type") == "message"
        and item.get("role", "assistant") == "assistant"
        and not str(item.get("id", "")).startswith(RESULT_ITEM_PREFIX)
    )


def _parts_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (
        part if isinstance(part, str) else part.get("text")
        for part in content
        if isinstance(part, str)
        or (isinstance(part, dict) and part.get("type") in ("text", "output_text"))
    )
    return "\n".join(text for text in texts if isinstance(text, str))


# ===== end owui_plugin/messages.py =====

# ===== begin owui_plugin/output_items.py =====

"""The items that we put into a message's ``output`` list. Pure functions on plain lists.

Since 0.12 Open WebUI shows a message's ``output`` (a list of items in the manner of OpenAI's
Responses API), and sends it to the model; ``content`` is ignored by both. An item of ours is
known by its id. Status lines of ours have an extra key, our mark, by which a run that a
restart cut off is found again.
"""

MARK = "run_code"


def item_id(run_id: str) -> str:
    """The id of the item that shows this run."""
    return RESULT_ITEM_PREFIX + run_id


def is_result_item(item: Any) -> bool:
    """Whether an item of a message is one of ours."""
    return isinstance(item, dict) and str(item.get("id", "")).startswith(
        RESULT_ITEM_PREFIX
    )


def text_item(run_id: str, text: str) -> dict[str, Any]:
    """A message item with Markdown text: what a run came to, or that it goes on."""
    return {
        "type": "message",
        "id": item_id(run_id),
        "status": "completed",
        "role": "assistant",
        "content": [{"type": "output_text", "text": text}],
    }


def running_mark(run_id: str, owner: str, expires_at: float) -> dict[str, Any]:
    """The mark of something unfinished: who works on it, and until when at the latest."""
    return {"state": "running", "run": run_id, "owner": owner, "expires": expires_at}


def ended_mark() -> dict[str, Any]:
    """The mark after which nothing is unfinished."""
    return {"state": "ended"}


def put_item(output: Any, item: dict[str, Any]) -> list[Any]:
    """The list with this item in the place of the one with its id, else at the end."""
    items = list(output) if isinstance(output, list) else []
    for index, entry in enumerate(items):
        if isinstance(entry, dict) and entry.get("id") == item["id"]:
            items[index] = item
            return items
    return [*items, item]


def has_item(output: Any, item: dict[str, Any]) -> bool:
    """Whether the list holds exactly this item."""
    return isinstance(output, list) and item in output


def unfinished_mark(status_history: Any) -> dict[str, Any] | None:
    """Our mark in the last status of a message, if that one is still running."""
    if not isinstance(status_history, list) or not status_history:
        return None
    last = status_history[-1]
    mark = last.get(MARK) if isinstance(last, dict) else None
    if isinstance(mark, dict) and mark.get("state") == "running":
        return mark
    return None


# ===== end owui_plugin/output_items.py =====

# ===== begin owui_plugin/host.py =====

"""All that we ask of Open WebUI, each request behind one small function.

Verified with Open WebUI 0.12.4. Its modules are imported where they are used: outside of it
(a self-test, a unit test) this module still loads. Calls are awaited only where they give
something awaitable, because older versions have synchronous models.
"""

_host_log = logging.getLogger("run_code.host")
_RECENT_SECONDS = 7 * 24 * 3600
_NOT_STORED = ("temporary:", "local:", "channel:")  # "local:" before 0.12

Emitter = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class MarkedMessage:
    """A stored message that once had a run of ours, and its status lines, oldest first."""

    chat_id: str
    message_id: str
    user_id: str
    status_history: Any


async def settle(value: Any) -> Any:
    """The value, awaited if it has to be."""
    return await value if inspect.isawaitable(value) else value


def is_saved_chat(chat_id: Any) -> bool:
    """Whether the chat is one that Open WebUI stores; a temporary one lives in the browser."""
    return (
        is_open_webui_here()
        and isinstance(chat_id, str)
        and bool(chat_id)
        and not chat_id.startswith(_NOT_STORED)
    )


def is_open_webui_here() -> bool:
    """Whether Open WebUI runs in this process. Where it is only installed (a self-test), to
    import it would end the process: it wants its whole configuration first."""
    return "open_webui.main" in sys.modules


async def emit(emitter: Emitter | None, kind: str, data: dict[str, Any]) -> None:
    """Send an event to the person's browser. A failure is no reason to lose a run."""
    if emitter is None:
        return
    try:
        await settle(emitter({"type": kind, "data": data}))
    except Exception:
        _host_log.exception("an event of kind %s could not be sent", kind)


async def stored_message(chat_id: Any, message_id: Any) -> dict[str, Any] | None:
    """The message as Open WebUI stores it; None for a temporary chat or an unknown message."""
    if not is_saved_chat(chat_id) or not isinstance(message_id, str):
        return None
    try:
        from open_webui.models.chats import Chats

        message = await settle(
            Chats.get_message_by_id_and_message_id(chat_id, message_id)
        )
    except Exception:
        _host_log.exception("a message could not be read")
        return None
    return message if isinstance(message, dict) else None


async def edit_message(
    chat_id: str, message_id: str, change: Callable[[dict[str, Any]], None]
) -> dict[str, Any] | None:
    """Change a stored message in place; returns a copy of what was written, None if it failed.

    One lock over both stores where Open WebUI has one (0.12), else read, change, write.
    """
    if not is_saved_chat(chat_id):
        return None
    try:
        from open_webui.models.chats import Chats

        if hasattr(Chats, "edit_message_output"):
            async with Chats.edit_message_output(chat_id, message_id) as message:
                if message is None:
                    return None
                change(message)
                return dict(deepcopy(message))
        message = await stored_message(chat_id, message_id)
        if message is None:
            return None
        change(message)
        written = await settle(
            Chats.upsert_message_to_chat_by_id_and_message_id(
                chat_id, message_id, message
            )
        )
        return None if written is None else dict(deepcopy(message))
    except Exception:
        _host_log.exception("a message could not be changed")
        return None


async def show_items(emitter: Emitter | None, output: list[Any]) -> None:
    """Show the items of a message in the browser."""
    text = _text_for_old_browser(output)
    shown = {"output": output} if text is None else {"output": output, "content": text}
    await emit(emitter, "chat:completion", shown)


def _text_for_old_browser(output: list[Any]) -> str | None:
    """What the browser of Open WebUI 0.9 shows in the place of items, which it does not know;
    None for later ones."""
    if not is_open_webui_here():
        return None
    from open_webui.env import VERSION

    if not str(VERSION).startswith("0.9."):
        return None
    from open_webui.utils.middleware import serialize_output

    return str(serialize_output(output))


def plain_content(output: list[Any], otherwise: str) -> str:
    """The text of ``output`` that Open WebUI keeps beside it, for search and notifications."""
    if not is_open_webui_here():
        return otherwise
    text = _text_for_old_browser(output)
    if text is not None:
        return text
    try:
        from open_webui.utils.misc import get_output_text
    except ImportError:
        return otherwise
    return str(get_output_text(output))


async def emitter_for(
    user_id: str, chat_id: str, message_id: str, session_id: str = ""
) -> Emitter | None:
    """An emitter that writes nothing itself; None where there is none. ``session_id``: of
    the browser tab that asked, if one did."""
    if not is_open_webui_here():
        return None
    try:
        from open_webui.socket.main import get_event_emitter

        request = {
            "user_id": user_id,
            "chat_id": chat_id,
            "message_id": message_id,
            "session_id": session_id,
        }
        emitter: Emitter = await settle(get_event_emitter(request, update_db=False))
    except Exception:
        _host_log.exception("no emitter for a message")
        return None
    return emitter


async def messages_with_marks() -> list[MarkedMessage]:
    """Recent messages with a mark of ours in their status, of runs that have ended and of
    others. Empty where this version of Open WebUI keeps no table of messages."""
    if not is_open_webui_here():
        return []
    try:
        from open_webui.internal.db import get_async_db_context
        from open_webui.models.chat_messages import ChatMessage
        from sqlalchemy import String, cast, select

        query = (
            select(
                ChatMessage.chat_id,
                ChatMessage.id,
                ChatMessage.user_id,
                ChatMessage.status_history,
            )
            .where(ChatMessage.updated_at > int(time.time()) - _RECENT_SECONDS)
            .where(cast(ChatMessage.status_history, String).like(f'%"{MARK}"%'))
        )
        async with get_async_db_context() as database:
            rows = (await database.execute(query)).all()
    except Exception:
        _host_log.exception("unfinished runs could not be looked for")
        return []
    return [
        MarkedMessage(chat, row.removeprefix(f"{chat}-"), user, history)
        for chat, row, user, history in rows
    ]


# ===== end owui_plugin/host.py =====

# ===== begin owui_plugin/quota.py =====

"""How much a person may keep of what runs make: the arithmetic, and the lock around it.

The arithmetic is pure. The lock is a file in Open WebUI's data folder, so that two workers
of one server cannot both take the last free place.
"""

_LOCK_FOLDER = "run-code-locks"
_STRIPES = 64  # lock files in all; people who share one only wait for each other
_LOCK_SECONDS = 30.0
_LOCK_POLL_SECONDS = 0.05
_FREE_SPACE = (
    "To free space, delete files in Settings → Data Controls → Manage Files, or ask your "
    "administrator for more"
)


class StoreBusy(SandboxError):
    """Another run of the same person is storing files, and does not come to an end."""


@dataclass(frozen=True, slots=True)
class Quota:
    """What may be kept: megabytes of one run; files and megabytes of a person in all.
    ``delete_oldest``: whether old files make room for new ones."""

    run_mb: int
    user_files: int
    user_mb: int
    delete_oldest: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What a person keeps already: number of files, and their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that a run made and that is kept: ``size`` in bytes, ``at`` in seconds since the
    epoch, ``path`` in Open WebUI's storage."""

    file_id: str
    name: str
    size: int
    at: float
    path: str


def usage_of(stored: Sequence[StoredFile]) -> Usage:
    """What these take."""
    return Usage(len(stored), sum(file.size for file in stored))


def oldest_to_delete(
    sizes: Sequence[int], stored: Sequence[StoredFile], quota: Quota
) -> list[StoredFile]:
    """The fewest of the oldest files without which all new ones can be kept that fit into the
    quota at all. ``sizes`` of the new ones in bytes."""
    answers = refusals(sizes, Usage(0, 0), quota)
    wanted = [size for size, reason in zip(sizes, answers, strict=True) if not reason]
    files, size = usage_of(stored).files + len(wanted), usage_of(stored).bytes + sum(
        wanted
    )
    deleted = []
    for file in sorted(stored, key=lambda entry: entry.at):
        if not wanted or (files <= quota.user_files and size <= quota.user_mb * MIB):
            break
        deleted.append(file)
        files, size = files - 1, size - file.size
    return deleted


def refusals(sizes: Sequence[int], usage: Usage, quota: Quota) -> list[str]:
    """For each file in order: why it cannot be kept; empty when it can.

    ``sizes`` in bytes. A file that is refused takes nothing from those after it.
    """
    kept_files, kept_bytes, answers = 0, 0, []
    for size in sizes:
        reason = _reason_against_keeping(
            size, Usage(usage.files + kept_files, usage.bytes), kept_bytes, quota
        )
        answers.append(reason)
        if not reason:
            kept_files += 1
            kept_bytes += size
    return answers


def _reason_against_keeping(
    size: int, usage: Usage, run_bytes: int, quota: Quota
) -> str:
    if run_bytes + size > quota.run_mb * MIB:
        return f"the files of one run may take {quota.run_mb} MB in all"
    if usage.files >= quota.user_files:
        return f"you keep {usage.files} of {quota.user_files} files from runs. {_FREE_SPACE}"
    if usage.bytes + run_bytes + size > quota.user_mb * MIB:
        used = (usage.bytes + run_bytes) / MIB
        return (
            f"your files from runs take {used:.1f} of {quota.user_mb} MB, and this one "
            f"needs {size / MIB:.1f} MB. {_FREE_SPACE}"
        )
    return ""


@asynccontextmanager
async def storage_lock(data_folder: Path, user_id: str) -> AsyncIterator[None]:
    """Hold a person's lock, over all workers of this server. It holds no thread while it
    waits. Raises StoreBusy after 30 s, OSError when the data folder cannot be written.
    """
    folder = data_folder / _LOCK_FOLDER
    folder.mkdir(exist_ok=True)
    stripe = int(hashlib.sha256(user_id.encode()).hexdigest(), 16) % _STRIPES
    descriptor = os.open(folder / f"{stripe}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        await _lock_file(descriptor)
        yield
    finally:
        os.close(descriptor)  # which unlocks it


async def _lock_file(descriptor: int) -> None:
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise StoreBusy("Other files are being stored. Run it again.") from None
            await asyncio.sleep(_LOCK_POLL_SECONDS)
        else:
            return


# ===== end owui_plugin/quota.py =====

# ===== begin owui_plugin/host_files.py =====

"""What we ask of Open WebUI's file store, each request behind one small function.

Verified with Open WebUI 0.12.4, like the host module. Nothing here decides anything; whatever
Open WebUI or its storage provider raises is passed on. Functions that are not ``async`` block.
"""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file of Open WebUI. ``path`` is the storage's own. ``mark`` is our note on a file that
    a run made, else empty."""

    file_id: str
    user_id: str
    name: str
    path: str
    mark: dict[str, Any]


async def chat_messages(chat_id: str) -> dict[str, Any]:
    """The messages of a stored chat by id; empty for a temporary one."""
    if not is_saved_chat(chat_id):
        return {}
    from open_webui.models.chats import Chats

    return await settle(Chats.get_messages_map_by_chat_id(chat_id)) or {}


async def message_file_ids(chat_id: str, message_id: str) -> list[str]:
    """Ids of the files that are linked to a message of a chat; none in versions of Open WebUI
    that know no such links."""
    from open_webui.models.chats import Chats

    if not hasattr(Chats, "get_chat_files_by_chat_id_and_message_id"):
        return []
    links = await settle(
        Chats.get_chat_files_by_chat_id_and_message_id(chat_id, message_id)
    )
    return [link.file_id for link in links]


async def link_to_chat(
    chat_id: str, message_id: str, file_ids: list[str], user_id: str
) -> None:
    """Link files to a message: whoever may read the shared chat may then read them."""
    from open_webui.models.chats import Chats

    if is_saved_chat(chat_id) and hasattr(Chats, "insert_chat_files"):
        await settle(Chats.insert_chat_files(chat_id, message_id, file_ids, user_id))


async def file_records(file_ids: Iterable[str]) -> dict[str, FileRecord]:
    """The files among these that exist, by id."""
    wanted = list(file_ids)
    if not wanted:
        return {}
    from open_webui.models.files import Files

    found = await settle(Files.get_files_by_ids(wanted))
    return {file.id: _record_of(file) for file in found}


def _record_of(file: Any) -> FileRecord:
    meta = file.meta if isinstance(file.meta, dict) else {}
    mark = meta.get(MARK)
    return FileRecord(
        file.id,
        str(file.user_id),
        str(meta.get("name") or file.filename),
        str(file.path or ""),
        mark if isinstance(mark, dict) else {},
    )


async def insert_record(
    record: FileRecord, kind: str, size: int, digest: str
) -> FileRecord | None:
    """Make a stored file one of its user's files. ``kind`` is its MIME type, ``size`` in
    bytes, ``digest`` the SHA-256 in hex. None when the database did not take it."""
    from open_webui.models.files import FileForm, Files

    meta = {
        "name": record.name,
        "content_type": kind,
        "size": size,
        MARK: record.mark,
    }
    form = FileForm(
        id=record.file_id,
        hash=digest,
        filename=record.name,
        path=record.path,
        # Nothing waits to be read into the search index.
        data={"status": "completed"},
        meta=meta,
    )
    return record if await settle(Files.insert_new_file(record.user_id, form)) else None


async def files_of_runs(user_id: str) -> list[StoredFile]:
    """What a person keeps of files that runs made."""
    from open_webui.internal.db import get_async_db_context
    from open_webui.models.files import File
    from sqlalchemy import String, cast, select

    query = (
        select(File.id, File.filename, File.path, File.meta)
        .where(File.user_id == user_id)
        .where(cast(File.meta, String).like(f'%"{MARK}"%'))
    )
    async with get_async_db_context() as database:
        rows = (await database.execute(query)).all()
    return [
        StoredFile(
            file_id,
            str(meta.get("name") or filename),
            int(meta.get("size") or 0),
            float(meta[MARK].get("at") or 0),
            str(path or ""),
        )
        for file_id, filename, path, meta in rows
        if isinstance(meta, dict) and isinstance(meta.get(MARK), dict)
    ]


async def delete_file(file: StoredFile) -> bool:
    """Delete a file and its bytes; False, and nothing is deleted, when it is in use as
    somebody's knowledge. Raises what the storage raises: then its bytes are left."""
    from open_webui.models.files import Files
    from open_webui.models.knowledge import Knowledges
    from open_webui.storage.provider import Storage

    lookup = getattr(Knowledges, "get_knowledges_by_file_id", None)
    if lookup is not None and await settle(lookup(file.file_id)):
        return False
    if not await settle(Files.delete_file_by_id(file.file_id)):
        return False
    await asyncio.to_thread(Storage.delete_file, file.path)
    return True


def local_path(path: str) -> Path:
    """A local file with the bytes at a path of the storage, which may have to be fetched."""
    from open_webui.storage.provider import Storage

    return Path(Storage.get_file(path))


def write_bytes(content: IO[bytes], name: str) -> str:
    """Store the bytes of an open file under a name of our own; returns the storage's path."""
    from open_webui.storage.provider import Storage

    return str(Storage.upload_file(content, name, {})[1])


def delete_bytes(name: str) -> None:
    """Remove what write_bytes left on this server under this name, if anything."""
    from open_webui.config import UPLOAD_DIR

    (Path(UPLOAD_DIR) / name).unlink(missing_ok=True)


def data_folder() -> Path:
    """Open WebUI's data folder, which all its workers on this server share. Raises
    LookupError where there is no Open WebUI in this process."""
    if not is_open_webui_here():
        raise LookupError("Open WebUI does not run in this process.")
    from open_webui.env import DATA_DIR

    return Path(DATA_DIR)


# ===== end owui_plugin/host_files.py =====

# ===== begin sandbox_core/data_folders.py =====

"""Folders of the container host that an administrator shows to every sandbox, read-only.

What is written of them is checked when settings are read; the folders themselves before runs,
on this machine's file system. So the engine has to be on this machine, and the folder to be
seen under the same path here: what cannot be looked at is refused.
"""

_ROOT = "/data"
_MOST_FOLDERS = 16
_MOST_ENTRIES = 100_000  # looked at for sockets, which gVisor lets nobody open anyway
_STILL_GOOD_SECONDS = 60.0
_ENTRY = re.compile(r"([A-Za-z0-9][\w.-]{0,63})\s*=\s*(/.*)", re.ASCII)
_SYSTEM_FOLDERS = tuple(
    Path(path)
    for path in (
        "/bin",
        "/boot",
        "/dev",
        "/etc",
        "/lib",
        "/proc",
        "/root",
        "/run",
        "/sbin",
        "/sys",
        "/usr",
        "/var/lib/containerd",
        "/var/lib/containers",
        "/var/lib/docker",
        "/var/lib/kubelet",
        "/var/run",
    )
)


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A folder of the container host, and the name that it has in the sandbox."""

    name: str
    path: str

    @property
    def target(self) -> str:
        """Where a program finds it."""
        return f"{_ROOT}/{self.name}"


def parse_data_folders(text: str) -> tuple[DataFolder, ...]:
    """Data folders from ``name=/path`` entries with commas or line ends between them.

    Raises InvalidRequest for an entry of another form, a name that is used twice, more than
    16 folders, and a path that is, is in, or holds a folder of the system.
    """
    entries = [entry.strip() for entry in re.split(r"[,\n]", text)]
    folders = tuple(_parse_entry(entry) for entry in entries if entry)
    names = [folder.name for folder in folders]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(f"There are two data folders with the name “{name}”.")
    if len(folders) > _MOST_FOLDERS:
        raise InvalidRequest(f"There may be {_MOST_FOLDERS} data folders at most.")
    return folders


def _parse_entry(entry: str) -> DataFolder:
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise InvalidRequest(
            "A data folder is written name=/path/of/the/folder, the name in letters, digits, "
            "dots, dashes and underscores."
        )
    folder = DataFolder(match[1], os.path.normpath("/" + match[2].lstrip("/")))
    _refuse_system_folder(folder, Path(folder.path))
    return folder


def _refuse_system_folder(folder: DataFolder, path: Path) -> None:
    for system in _SYSTEM_FOLDERS:
        if _touches(path, system):
            raise _folder_refusal(
                folder, f"it is, holds or lies in {system}, which is the system's"
            )


def _touches(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


class DataFolders:
    """The data folders of a runner, looked at again from time to time. Thread-safe.

    ``forbidden``: folders of this machine that none of them may be, hold or lie in.
    ``engine_is_here``: whether the engine's host is this machine.
    """

    def __init__(
        self,
        folders: Sequence[DataFolder] = (),
        forbidden: Sequence[Path] = (),
        engine_is_here: bool = True,
    ) -> None:
        self._folders = tuple(folders)
        self._forbidden = tuple(path.resolve() for path in forbidden)
        self._engine_is_here = engine_is_here
        self._lock = threading.Lock()
        self._checked: tuple[DataFolder, ...] = ()
        self._good_until = 0.0

    def checked(self) -> tuple[DataFolder, ...]:
        """The folders by their real paths. Called for each run; may look through them, which
        takes some time. Raises InvalidRequest, with the folder's name and the reason.
        """
        if not self._folders:
            return ()
        with self._lock:
            if time.monotonic() > self._good_until:
                self._checked = tuple(self._check(folder) for folder in self._folders)
                self._good_until = time.monotonic() + _STILL_GOOD_SECONDS
            return self._checked

    def _check(self, folder: DataFolder) -> DataFolder:
        if not self._engine_is_here:
            raise _folder_refusal(
                folder,
                "the container engine is on another machine, whose folders cannot be looked "
                "at from here. Run codebox there, and set CODEBOX_DATA_FOLDERS",
            )
        try:
            real = Path(folder.path).resolve(strict=True)
            is_folder = real.is_dir()
        except (
            OSError,
            RuntimeError,
        ):  # the latter: a loop of links, before Python 3.13
            is_folder = False
        if not is_folder:
            raise _folder_refusal(
                folder, "there is no such folder on this machine (or in this container)"
            )
        _refuse_system_folder(folder, real)
        if any(_touches(real, path) for path in self._forbidden):
            raise _folder_refusal(
                folder, "Open WebUI's own data is in it, or it is in there"
            )
        if _holds_socket(real):
            raise _folder_refusal(
                folder, "it holds a socket, behind which may be a service"
            )
        return DataFolder(folder.name, str(real))


def _holds_socket(path: Path) -> bool:
    modes = islice(_modes_under(path), _MOST_ENTRIES)
    return any(stat.S_ISSOCK(mode) for mode in modes)


def _modes_under(path: Path) -> Iterator[int]:
    """The file type and permission bits of everything in a folder; links are not followed."""
    folders = [path]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Path(entry.path))
                    yield entry.stat(follow_symlinks=False).st_mode
        except OSError:  # gone meanwhile, or not ours to look into
            continue


def _folder_refusal(folder: DataFolder, reason: str) -> InvalidRequest:
    return InvalidRequest(
        f"The data folder “{folder.name}” cannot be used, so nothing is run: {reason}. An "
        "administrator should correct the setting data_folders."
    )


# ===== end sandbox_core/data_folders.py =====

# ===== begin sandbox_core/deadline.py =====

"""A point on the monotonic clock by which something must have happened."""


class Deadline:
    """``Deadline(5)`` passes five seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining() == 0.0


# ===== end sandbox_core/deadline.py =====

# ===== begin sandbox_core/leases.py =====

"""Who owns a sandbox and until when: the labels that let a reaper find what is left over."""

LABEL_OWNER = "run-code.owner"
LABEL_RUN = "run-code.run"
LABEL_EXPIRES = "run-code.expires"

_MARGIN_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Lease:
    """One sandbox as an engine lists it, or the network of one. ``expires_at`` is in seconds
    since the epoch."""

    sandbox_id: str
    run_id: str
    owner: str
    expires_at: float
    is_network: bool = False


def current_owner() -> str:
    """``machine/pid/start``: this process, told apart from a later one with the same pid.

    Never a person's name: labels can be read by everyone who may use the engine.
    """
    return f"{_machine()}/{os.getpid()}/{_process_start(os.getpid())}"


def is_dead(lease: Lease, now: float) -> bool:
    """Whether nobody can be using this sandbox any more.

    Provable in two ways: it expired, or its owner would be seen from here and is gone.
    """
    if now > lease.expires_at + _MARGIN_SECONDS:
        return True
    machine, _, rest = lease.owner.partition("/")
    pid, _, start = rest.partition("/")
    if machine != _machine() or not pid.isdigit():
        return False
    return _process_start(int(pid)) != start


def _machine() -> str:
    """Where a pid means the same process: this boot of this host, and this pid namespace.

    The host's name alone would not do: containers share it when they share its network, and
    must not take each other's processes for dead.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        namespace = os.readlink("/proc/self/ns/pid").strip("pid:[]")
    except OSError:  # not Linux: nobody is provably dead before the lease ends
        boot, namespace = "", str(os.getpid())
    return f"{socket.gethostname()}.{boot}.{namespace}"


def _process_start(pid: int) -> str:
    """Start time of a process in clock ticks since boot (proc(5), field 22); "" if gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    return text.rpartition(")")[2].split()[19]


# ===== end sandbox_core/leases.py =====

# ===== begin sandbox_core/engines/base.py =====

"""What an engine is: it gives us a byte channel to the guest of a fresh sandbox.

Life cycle, deadlines, the protocol and the outcome belong to the runner. An engine starts,
moves bytes, kills, and lists what is left over. Its own vendor's errors are mapped to
``sandbox_core.errors`` in one place.
"""


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """Everything an engine needs to know of a sandbox. It holds no secret: labels and the
    command line can be read from outside, and the command line from inside.

    ``network`` is the engine's name of an internal network, or empty: no network at all.
    ``proxy`` is the address of the proxy on it that programs are told of.
    ``packages_mib`` is the size of a folder for installed packages; 0: there is none.
    ``waiting`` names the interpreter that is started before the job: ``python``, which imports
    the modules of ``preload``, or ``node``; empty means a cold sandbox. ``data_folders``, by
    their real paths, are shown read-only.
    """

    image: str
    runtime: str
    limits: Limits
    run_id: str
    owner: str
    expires_at: float
    argv: tuple[str, ...]
    waiting: str = ""
    preload: tuple[str, ...] = ()
    data_folders: tuple[DataFolder, ...] = ()
    network: str = ""
    packages_mib: int = 0
    proxy: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the doctor looked at. ``mend`` is the command or line that mends it, and
    ``why`` says what it would cost to leave it."""

    name: str
    ok: bool
    text: str
    mend: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class KillReport:
    """What is known after a kill. ``may_linger``: the engine did not confirm the end."""

    may_linger: bool = False
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a sandbox ended, as the engine saw it. ``oom`` is None when it cannot tell.

    ``untrusted_diagnostics`` is what the sandbox wrote outside the protocol, bounded.
    """

    exit_code: int | None = None
    oom: bool | None = None
    untrusted_diagnostics: str = ""
    may_linger: bool = False


class CancelToken:
    """Set once, from any thread; wakes whoever registered."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self) -> None:
        """Ask the run to end; what it printed so far is kept. Idempotent."""
        with self._lock:
            self._event.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def is_set(self) -> bool:
        """Whether cancel() was called."""
        return self._event.is_set()

    def call_on_cancel(self, callback: Callable[[], None]) -> None:
        """Call back once at cancel(), in its thread; at once if it was called before."""
        with self._lock:
            if not self._event.is_set():
                self._callbacks.append(callback)
                return
        callback()


class Channel(Protocol):
    """A duplex byte stream to one guest, and the power to end its sandbox."""

    def send(self, data: bytes, deadline: Deadline) -> None:
        """Called by the runner's thread. Returns when all is written. Raises ChannelClosed
        when the guest is gone, and StartFailed when the deadline passes first."""

    def recv(self, timeout: float) -> bytes | None:
        """Called by the runner's thread only. At most 256 KiB; None = nothing came within
        ``timeout`` seconds, b"" = the end, also after a kill from another thread."""

    def close_send(self) -> None:
        """Half-close: the guest sees the end of its stdin and ends."""

    def kill(self) -> KillReport:
        """Called from any thread in any state, any number of times. Afterwards send and recv
        return at once, and the sandbox is gone unless the report says that it may linger.
        """

    def ended(self, deadline: Deadline) -> Ended:
        """Called by the runner after the end of the stream or a kill."""

    def close(self) -> None:
        """Always called by the runner, last: leaves no sandbox and no descriptor behind."""


class Engine(Protocol):
    """A source of fresh sandboxes."""

    name: str

    @property
    def is_here(self) -> bool:
        """Asked by whoever names folders of its host: whether that is this machine."""

    def check(self, deadline: Deadline) -> list[Finding]:
        """Called by the doctor: what is there, what is missing, and what mends it."""

    def start(
        self, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
    ) -> Channel:
        """Called by the runner: a new sandbox, attached before it was started. On any raise
        nothing is left. Raises EngineError; ChannelClosed when cancelled meanwhile."""

    def open_route(
        self,
        way: EgressSettings,
        mode: str,
        run_id: str,
        owner: str,
        expires_at: float,
        deadline: Deadline,
    ) -> Route:
        """Called by the runner before start(), for a run with a network: one of its own, with
        the proxy on it. On any raise nothing is left. Raises EngineError."""

    def close_route(self, route: Route) -> None:
        """Called by the runner when the sandbox was closed or is about to be: waits for that,
        and leaves nothing of the network. Raises EngineError."""

    def leftovers(self) -> list[Lease]:
        """Called by the reaper: every sandbox of ours, whoever owns it, and then the networks
        of sandboxes. Raises EngineError."""

    def remove(self, lease: Lease) -> None:
        """Called by the reaper for what is provably dead. Gone already is fine."""

    def image_id(self, deadline: Deadline) -> str:
        """Called for records: the digest of the image that check() looks for; empty when it
        is not there. Raises EngineError."""


# ===== end sandbox_core/engines/base.py =====

# ===== begin sandbox_core/engines/host_root.py =====

"""A root file system made of this machine's own Python, for where no image was prepared.

An allow-list: the standard library's code, named packages by their own lists of files, named
programs, and the libraries that all of these load. Everything is copied to the path that it
has here, into a folder with an /etc of our own; nothing else of this machine is in it.
"""

# Distributions, with what they need in turn. What is not installed here is left out.
HOST_PACKAGES = (
    "numpy",
    "pandas",
    "python-dateutil",
    "six",
    "pytz",
    "tzdata",
    "matplotlib",
    "contourpy",
    "cycler",
    "fonttools",
    "kiwisolver",
    "packaging",
    "pillow",
    "pyparsing",
)
_PROGRAMS = (
    *(
        "bash",
        "sh",
        "env",
        "node",
        "awk",
        "find",
        "grep",
        "sed",
        "tar",
        "gzip",
        "xargs",
    ),
    *("basename", "cat", "chmod", "cp", "cut", "date", "dirname", "du", "df", "echo"),
    *("false", "head", "id", "ln", "ls", "md5sum", "mkdir", "mktemp", "mv", "od"),
    *("paste", "printf", "pwd", "readlink", "rm", "rmdir", "seq", "sha256sum", "shuf"),
    *("sleep", "sort", "split", "stat", "tac", "tail", "tee", "test", "touch", "tr"),
    *("true", "uname", "uniq", "wc", "which", "yes", "ps", "diff"),
)
_DATA_FOLDERS = ("/usr/lib/locale/C.utf8", "/usr/share/zoneinfo")
_STDLIB_SUFFIXES = (".py", ".pyc", ".so")
_STDLIB_LEFT_OUT = {
    *("site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter"),
    *("turtledemo", "ensurepip"),
}
_TOP_LINKS = ("bin", "sbin", "lib", "lib32", "lib64")
_ETC = {
    "passwd": "root:x:0:0:root:/:/bin/sh\nsandbox:x:1000:1000::/tmp/home:/bin/bash\n",
    "group": "root:x:0:\nsandbox:x:1000:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "hostname": "sandbox\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
}
# Changes when a root that was made before would not be made in the same way today.
_FORMAT = "1"
_LDD_SECONDS = 60
_COMPILE_SECONDS = 300


def host_root_key() -> str:
    """Names the contents: another Python or package here means another root."""
    parts = [_FORMAT, sys.version, _interpreter()]
    parts += [f"{entry.name}={entry.version}" for entry in _distributions()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def make_host_root(root: Path) -> None:
    """Fill an empty folder. Takes some seconds. Raises OSError."""
    _make_skeleton(root)
    loaders = []
    for target, source in (*_code_and_data(), *_programs(), *_package_files()):
        _place(root, source, target)
        if source.endswith(".so") or os.access(source, os.X_OK):
            loaders.append(source)
    homes = tuple(f"{_home_of(entry)}/" for entry in _distributions())
    for library in _libraries_of(loaders):
        if not library.startswith(homes):  # a package's own, which is there already
            _place(root, library, library)
    _finish(root)


def _make_skeleton(root: Path) -> None:
    for name in ("proc", "dev", "sys", "tmp", "mnt/data", "etc", "usr/bin"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in _TOP_LINKS:
        if os.path.islink(f"/{name}"):
            (root / name).symlink_to(os.readlink(f"/{name}").lstrip("/"))
    for name, text in _ETC.items():
        (root / "etc" / name).write_text(text)


def _finish(root: Path) -> None:
    """What programs expect under a fixed name, and compiled modules: the root is read-only."""
    stdlib = root / _stdlib().lstrip("/")
    link = stdlib / "dist-packages"  # Debian's name for the same place
    if (stdlib / "site-packages").is_dir() and not link.exists():
        link.symlink_to("site-packages")
    for name in ("python3", "python"):
        command = root / "usr/bin" / name
        if not command.exists():
            command.symlink_to(_interpreter())
    subprocess.run(
        [sys.executable, "-m", "compileall", "-qq", "-s", str(root), str(stdlib)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=_COMPILE_SECONDS,
        check=False,  # a few of Python's own files are broken on purpose
    )


def _interpreter() -> str:
    """The real Python behind a virtual environment or a version switcher."""
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return os.path.realpath(base)


def _stdlib() -> str:
    return os.path.realpath(sysconfig.get_path("stdlib"))


def _code_and_data() -> Iterator[tuple[str, str]]:
    """(path in the root, path here) of the standard library's code, and of data that hold no
    secret on any machine."""
    for folder, below, names in os.walk(_stdlib()):
        below[:] = [name for name in below if name not in _STDLIB_LEFT_OUT]
        for name in names:
            if name.endswith(_STDLIB_SUFFIXES):
                path = os.path.join(folder, name)
                yield path, path
    for data in _DATA_FOLDERS:
        for folder, _, names in os.walk(data):
            for name in names:
                path = os.path.join(folder, name)
                yield path, path


def _programs() -> Iterator[tuple[str, str]]:
    """The interpreter, and the named programs that this machine has."""
    yield _interpreter(), _interpreter()
    for name in _PROGRAMS:
        found = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin")
        if found is not None:
            yield found, found


def _distributions() -> list[metadata.Distribution]:
    found = []
    for name in HOST_PACKAGES:
        try:
            found.append(metadata.distribution(name))
        except metadata.PackageNotFoundError:
            continue
    return found


def _home_of(distribution: metadata.Distribution) -> str:
    return os.path.realpath(str(distribution.locate_file("")))


def _package_files() -> Iterator[tuple[str, str]]:
    """(path in the root, path here) of each file that a package says is its own."""
    site = f"{_stdlib()}/site-packages"
    for distribution in _distributions():
        home = _home_of(distribution)
        for file in distribution.files or ():
            if ".." in file.parts or "tests" in file.parts:
                continue
            yield f"{site}/{file}", f"{home}/{file}"


def _libraries_of(paths: list[str]) -> set[str]:
    """All shared libraries that these files load, as the machine's own linker finds them."""
    done = subprocess.run(
        ["ldd", *paths],
        capture_output=True,
        text=True,
        timeout=_LDD_SECONDS,
        check=False,  # it fails for a program without libraries
    )
    # "libc.so.6 => /lib/libc.so.6 (0x…)", and "/lib64/ld-linux-x86-64.so.2 (0x…)"
    found = re.findall(r"^\t(?:\S+ => )?(/\S+) \(0x", done.stdout, re.MULTILINE)
    return {os.path.normpath(path) for path in found}


def _place(root: Path, source: str, path: str) -> None:
    """Copy a file's contents to its path in the root. A link to it elsewhere is a file there;
    one that leads to no regular file is left out."""
    if not os.path.isfile(source):
        return
    folder = os.path.realpath(os.path.dirname(path))
    target = root / folder.lstrip("/") / os.path.basename(path)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    # Its time stays, or compiled modules would count as old; its owner and mode do not.
    status = os.stat(source)
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    target.chmod(0o755 if status.st_mode & 0o100 else 0o644)


# ===== end sandbox_core/engines/host_root.py =====

# ===== begin sandbox_core/engines/runsc_images.py =====

"""Root file systems for embedded sandboxes: prepared folders, else this machine's Python.

A prepared image is ``IMAGES/NAME/`` with ``rootfs/`` and ``image.json`` (``{"env": [...]}``);
scripts/rootfs makes it. NAME is the image's, with ``/`` and ``:`` as ``_``.
"""

DEFAULT_ENV = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
)
HOST_IMAGE = "host"
USUAL_IMAGE = "run-code-python:latest"
_NOT_PREPARED = (
    "The sandbox image is not on this machine, so nothing was run. It is called {name}: an "
    "administrator should prepare it with scripts/rootfs debian {name} (docs/setup.md, "
    "“Without Docker”); then try again."
)
_NOT_COPIED = (
    "No sandbox image is prepared here, and this machine's Python could not be copied for "
    "one, so nothing was run. An administrator should run the doctor (docs/setup.md)."
)


@dataclass(frozen=True, slots=True)
class RootImage:
    """A folder that becomes a sandbox's root, and the environment of its programs."""

    root: Path
    env: tuple[str, ...]


def default_images_folder() -> Path:
    """Where images are prepared when no setting says."""
    if os.geteuid() == 0:
        return Path("/var/lib/run-code/images")
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")
    return Path(data) / "run-code/images"


def image_folder_name(image: str) -> str:
    """The folder of an image: no name leads out of the images' folder."""
    return re.sub(r"[^A-Za-z0-9.-]", "_", image).lstrip(".") or "_"


class ImageStore:
    """The images of one folder."""

    def __init__(self, folder: str = "") -> None:
        self._folder = Path(folder) if folder else default_images_folder()

    def open(self, image: str) -> RootImage:
        """The root of this image; for ``host``, and for the usual image when nobody has
        prepared it, this machine's own Python, copied first if need be (some seconds).
        Raises ImageMissing."""
        prepared = self._folder / image_folder_name(image)
        if (prepared / "image.json").is_file():
            return _read_image(prepared)
        if image not in (HOST_IMAGE, USUAL_IMAGE):
            raise _not_prepared(image, str(prepared))
        try:
            return _read_image(self._host_image())
        except OSError as error:
            raise ImageMissing(_NOT_COPIED, repr(error)) from error

    def check(self, image: str) -> Finding:
        """What the doctor says of this image."""
        prepared = self._folder / image_folder_name(image)
        try:
            root = self.open(image).root
        except ImageMissing as error:
            mend = (
                f"scripts/rootfs debian {image}   # or: scripts/rootfs docker {image}"
            )
            return Finding("image", False, str(error), mend)
        if root.parent == prepared:
            return Finding("image", True, f"The image {image} is in {prepared}.")
        text = f"No image is prepared: sandboxes see a copy of this machine's Python ({root})."
        return Finding("image", True, text)

    def identity(self, image: str) -> str:
        """Which image that is, for records; empty when it is not there. Raises ImageMissing
        when it cannot be read."""
        root = self.open(image).root
        made = (root.parent / "image.json").stat().st_mtime
        return f"{root.parent.name}@{made:.0f}"

    def _host_image(self) -> Path:
        """The folder of the copy, made once by whoever comes first."""
        done = self._folder / f"host-{host_root_key()}"
        if (done / "image.json").is_file():
            return done
        self._folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (self._folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if (done / "image.json").is_file():
                return done
            shutil.rmtree(done, ignore_errors=True)
            (done / "rootfs").mkdir(parents=True)
            make_host_root(done / "rootfs")
            # Last: a folder without it is one that was never finished.
            write_image(done, DEFAULT_ENV)
        return done


def write_image(folder: Path, env: tuple[str, ...]) -> None:
    """Declare a folder with a ``rootfs`` to be an image."""
    text = json.dumps({"env": list(env)})
    draft = folder / ".image.json"
    draft.write_text(text)
    draft.rename(folder / "image.json")


def _not_prepared(image: str, detail: str) -> ImageMissing:
    # The host of a registry is nobody's business in a chat.
    return ImageMissing(_NOT_PREPARED.format(name=image.rpartition("/")[2]), detail)


def _read_image(folder: Path) -> RootImage:
    try:
        env = tuple(json.loads((folder / "image.json").read_text())["env"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _not_prepared(folder.name, repr(error)) from error
    return RootImage(folder / "rootfs", env or DEFAULT_ENV)


# ===== end sandbox_core/engines/runsc_images.py =====

# ===== begin sandbox_core/engines/runsc_download.py =====

"""Gets gVisor's program from an address, once, when an administrator has asked for it.

What comes is kept only when it has the SHA-512 that was stated: the address may be a mirror.
gVisor publishes each release's next to it (``ADDRESS.sha512``). Proxies are those of the
environment (``https_proxy``, ``no_proxy``), as urllib reads them.
"""

RUNSC_ADDRESS = (
    "https://storage.googleapis.com/gvisor/releases/release/20240729/{arch}/runsc"
)
_MOST_BYTES = 200 << 20
_READ_AT_ONCE = 1 << 20
_DOWNLOAD_SECONDS = 60.0  # without a byte
_download_log = logging.getLogger("run_code.runsc")


def downloaded_runsc(sha512: str, folder: Path | None = None) -> Path:
    """Where the program of this checksum is, or would be."""
    home = folder or default_images_folder().parent / "runsc"
    return home / sha512[:16].lower() / "runsc"


def start_runsc_download(address: str, sha512: str) -> None:
    """Get it in a thread of its own, unless it is there. A failure is one line in the log,
    and runs say meanwhile that there is no runsc."""
    if not downloaded_runsc(sha512).exists():
        threading.Thread(
            target=_try, args=(address, sha512), name="run-code-runsc", daemon=True
        ).start()


def download_runsc(address: str, sha512: str, folder: Path | None = None) -> Path:
    """Get it, check it, and put it in its place; ``{arch}`` in the address becomes this
    machine's. Raises RuntimeMissing when it cannot be had, or is another one."""
    target = downloaded_runsc(sha512, folder)
    try:
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with (target.parent / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not target.exists():
                draft = target.with_name(".runsc.draft")
                found = _fetch(address.replace("{arch}", platform.machine()), draft)
                if found != sha512.lower():
                    draft.unlink()
                    raise OSError(f"its SHA-512 is {found}, not {sha512.lower()}")
                draft.chmod(0o755)
                draft.rename(target)
    except (OSError, ValueError) as error:
        raise RuntimeMissing(
            "gVisor's program could not be downloaded. An administrator should check "
            "runsc_address and runsc_sha512 (docs/setup.md, “Without Docker”).",
            repr(error),
        ) from error
    return target


def _try(address: str, sha512: str) -> None:
    try:
        path = download_runsc(address, sha512)
        _download_log.info("gVisor's program is in %s", path)
    except RuntimeMissing as error:
        _download_log.error("%s (%s)", error, error.detail)


def _fetch(address: str, path: Path) -> str:
    """Store what is at the address; its SHA-512. Raises OSError, ValueError."""
    digest = hashlib.sha512()
    size = 0
    opener = urllib.request.build_opener()  # reads the proxies as they are now
    with (
        opener.open(address, timeout=_DOWNLOAD_SECONDS) as answer,
        path.open("wb") as sink,
    ):
        while data := answer.read(_READ_AT_ONCE):
            size += len(data)
            if size > _MOST_BYTES:
                raise OSError(f"more than {_MOST_BYTES >> 20} MiB")
            digest.update(data)
            sink.write(data)
        sink.flush()
        os.fsync(sink.fileno())
    return digest.hexdigest()


# ===== end sandbox_core/engines/runsc_download.py =====

# ===== begin sandbox_core/language_records.py =====

"""Languages that an administrator adds: TOML or JSON, a table for each, by the language's name.

The fields of a table are those of ``_FIELDS``; docs/adding-a-language.md explains them. All faults
are told at once, because whoever mends a file wants to do it once.
"""

_LARGEST_FILE = 65536  # bytes
_MOST_LANGUAGES = 32
_WORD = re.compile(r"[a-z][a-z0-9+#_-]{0,29}")
_FILE_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}\.[A-Za-z0-9]{1,12}")
_IMAGE = re.compile(r"[a-z0-9][\w./:@-]{0,254}", re.ASCII)
_LINE = "{line}"
_REQUIRED = ("file_name", "run", "version", "self_test")
# What each field must be, in words.
_FIELDS = {
    "title": "a text",
    "aliases": "a list of texts",
    "file_name": "a text",
    "compile": "a list of texts",
    "run": "a list of texts",
    "version": "a list of texts",
    "image": "a text",
    "joins": "true or false",
    "interpreters": "a list of texts",
    "line_reference": "a text",
    "self_test": "a table with the texts code and expected_stdout",
}


def is_records_file(setting: str) -> bool:
    """Whether a setting is the path of a file and not the records themselves."""
    return setting.startswith("/") and "\n" not in setting


def read_language_records(setting: str) -> str:
    """The records of a setting that is either their text or the path of their file.

    Raises InvalidRequest when the file cannot be read.
    """
    if not is_records_file(setting):
        return setting
    try:
        with Path(setting).open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:
        raise InvalidRequest(
            "The file with the records of languages cannot be read. Ask your administrator to "
            "correct the setting languages.",
            detail=repr(error),
        ) from error
    if len(data) > _LARGEST_FILE:
        raise InvalidRequest(
            f"The file with the records of languages has more than {_LARGEST_FILE} bytes. Ask "
            "your administrator to make it smaller."
        )
    return text


def parse_language_records(text: str) -> tuple[Language, ...]:
    """The languages of such a text, in its order; none for an empty one.

    Raises InvalidRequest with all faults.
    """
    records = _load(text)
    faults = [
        f"{name}: {fault}." for name in records for fault in _faults(name, records)
    ]
    if len(records) > _MOST_LANGUAGES:
        faults.append(f"There may be {_MOST_LANGUAGES} at most.")
    if faults:
        raise InvalidRequest(
            f"The records of languages have faults. {' '.join(faults)} Ask your administrator "
            "to correct the setting languages."
        )
    return tuple(_language(name, record) for name, record in records.items())


def _load(text: str) -> dict[str, Any]:
    try:
        is_json = text.lstrip().startswith("{")
        records = json.loads(text) if is_json else tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"The records of languages are no TOML and no JSON: {error}. Ask your "
            "administrator to correct the setting languages."
        ) from error
    return dict(records)


def _faults(name: str, records: dict[str, Any]) -> Iterator[str]:
    """What is wrong with one record, each in words that a “.” may follow."""
    record = records[name]
    if not isinstance(record, dict):
        yield "this is no table"
        return
    for field in record.keys() - _FIELDS.keys():
        yield f"there is no field {str(field)[:40]}; there are {', '.join(_FIELDS)}"
    for field in _REQUIRED:
        if field not in record:
            yield f"{field} is missing"
    wrong = [field for field in record if not _has_its_type(field, record[field])]
    for field in wrong:
        yield f"{field} must be {_FIELDS[field]}"
    if not wrong:
        yield from _faults_of_words(name, records)
        yield from _faults_of_commands(record)


def _faults_of_words(name: str, records: dict[str, Any]) -> Iterator[str]:
    record = records[name]
    for word in (name, *record.get("aliases", ())):
        if not _WORD.fullmatch(word):
            yield f"“{word[:40]}” is no word of lower-case letters, digits, +, #, - and _"
        elif owner := _owner_of(word, name, records):
            yield f"“{word}” means {owner} already"
    if not _FILE_NAME.fullmatch(record.get("file_name", "main.x")):
        yield "file_name must be a name with an ending, such as main.awk"
    if record.get("image") and not _IMAGE.fullmatch(record["image"]):
        yield "image must be the name of an image"
    if record.get("line_reference", _LINE).count(_LINE) != 1:
        yield f"line_reference must have {_LINE} once, where an error has the line's number"


def _owner_of(word: str, name: str, records: dict[str, Any]) -> str:
    """The other language that has this word; empty when none has."""
    for entry in LANGUAGES:
        if word in (entry.name, *entry.aliases, *entry.transcripts):
            return entry.title
    for other, record in records.items():
        if other != name and isinstance(record, dict):
            aliases = record.get("aliases")
            if word == other or (isinstance(aliases, list) and word in aliases):
                return other
    return ""


def _faults_of_commands(record: dict[str, Any]) -> Iterator[str]:
    commands = {field: record.get(field) for field in ("compile", "run", "version")}
    for field, argv in commands.items():
        if argv is not None and not (argv and all(argv)):
            yield f"{field} must have words, none of them empty"
    compiled, run = record.get("compile", []), record.get("run", [])
    if not any("{source}" in word for word in (*compiled, *run)):
        yield "no command has {source}, the path of the program's file"
    if compiled and not any("{build}" in word for word in compiled):
        yield "compile has no {build}, the folder for what it makes"
    if not compiled and any("{build}" in word for word in run):
        yield "run has {build}, and there is no compile"


def _has_its_type(field: str, value: Any) -> bool:
    kind = _FIELDS.get(field)
    if kind == "a text":
        return isinstance(value, str)
    if kind == "a list of texts":
        return isinstance(value, list) and all(isinstance(part, str) for part in value)
    if kind == "true or false":
        return isinstance(value, bool)
    if field == "self_test":
        return (
            isinstance(value, dict)
            and value.keys() == {"code", "expected_stdout"}
            and all(isinstance(text, str) for text in value.values())
        )
    return True  # an unknown one is told as such


def _language(name: str, record: dict[str, Any]) -> Language:
    return Language(
        name=name,
        title=record.get("title") or name.capitalize(),
        aliases=tuple(record.get("aliases", ())),
        file_name=record["file_name"],
        argv=tuple(record["run"]),
        version_argv=tuple(record["version"]),
        self_test=SelfTest(**record["self_test"]),
        image=record.get("image", ""),
        version="",
        compile_argv=tuple(record.get("compile", ())),
        joins=record.get("joins", False),
        interpreters=tuple(record.get("interpreters", ())),
        line_reference=_pattern(record.get("line_reference", "")),
    )


def _pattern(line_reference: str) -> str:
    before, _, after = line_reference.partition(_LINE)
    return rf"{re.escape(before)}(\d+){re.escape(after)}" if line_reference else ""


# ===== end sandbox_core/language_records.py =====

# ===== begin sandbox_core/proofs.py =====

"""Programs that try to break a limit, each with how to tell whether it was stopped.

Every one ends by itself after a while, so that a host on which a limit does not bite is told
so, and not harmed.
"""

PROOF_WORK_MIB = 8
_SURVIVED = "print('survived')\n"


@dataclass(frozen=True, slots=True)
class Proof:
    """``holds`` judges the result of ``code``, which runs with ``limits`` lower than usual.
    ``mend`` is what an administrator can do about a host on which it does not hold; empty: a
    newer gVisor."""

    name: str
    title: str
    why: str
    code: str
    limits: dict[str, float]
    holds: Callable[[RunResult], bool]
    mend: str = ""


def _ends_as(*outcomes: Outcome) -> Callable[[RunResult], bool]:
    return lambda result: result.outcome in outcomes


def _says(text: str) -> Callable[[RunResult], bool]:
    return lambda result: str(result.stdout).strip() == text


_LOOP = f"""\
import time
end = time.monotonic() + 4
while time.monotonic() < end:
    pass
{_SURVIVED}"""
_HOG = f"""\
chunks = []
for _ in range(60):
    chunks.append(b"x" * 10_000_000)
{_SURVIVED}"""
_FORKS = f"""\
import os, time
for _ in range(150):
    if os.fork() == 0:
        time.sleep(3)
        os._exit(0)
{_SURVIVED}"""
# Beside the three there is what the host's kernel, an engine or an image may have mounted.
_DISK = f"""\
told = []
folders = ("/mnt/data", "/tmp", "/dev/shm")
for folder in folders:
    try:
        with open(folder + "/filled", "wb", buffering=0) as file:
            for _ in range({8 * PROOF_WORK_MIB}):
                file.write(b"x" * 1_048_576)
        told.append("room")
    except OSError as error:
        told.append("full" if error.errno == 28 else str(error))
places = {{line.split()[4] for line in open("/proc/self/mountinfo")}} | {{"/var/tmp", "/opt"}}
for place in sorted(places - {{*folders}}):
    try:
        open(place + "/filled", "wb").close()
        told.append("also " + place)
    except OSError:
        pass
print(*told)
"""
_FLOOD = f"""\
for _ in range(400):
    print("x" * 10_000)
{_SURVIVED}"""
_NETWORK = """\
import socket
names = [name for _, name in socket.if_nameindex() if name != "lo"]
told = " ".join(["interfaces:", *names]) if names else "closed"
for kind, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
    try:
        # Choosing a route sends nothing.
        socket.socket(kind, socket.SOCK_DGRAM).connect((address, 9))
        told = "a route to " + address
    except OSError:
        pass
print(told)
"""
_READ = """\
found = []
for path in ({path!r}, "/proc/1/root" + {path!r}, "/proc/self/root" + {path!r}):
    try:
        found.append(open(path).read())
    except OSError:
        pass
print("seen" if found else "hidden")
try:
    print(open("/etc/hosts").read())
except OSError:
    pass
"""
# What every engine writes into a sandbox's /etc/hosts.
_USUAL_HOSTS = re.compile(r"localhost|ip6-|sandbox$|broadcasthost$")

PROOFS = (
    Proof(
        "time-limit",
        "An endless loop is stopped",
        "Otherwise one program holds a processor for ever.",
        _LOOP,
        {"seconds": 1},
        _ends_as(Outcome.TIMEOUT),
    ),
    Proof(
        "memory-limit",
        "A program that takes all memory is stopped",
        "Otherwise one program brings down everything on this host.",
        _HOG,
        {"memory_mib": 64},
        _ends_as(Outcome.MEMORY_LIMIT),
    ),
    Proof(
        "process-limit",
        "A fork bomb is stopped",
        "Otherwise one program makes the host too busy for anything else.",
        _FORKS,
        {"processes": 32},
        _ends_as(Outcome.PROCESS_LIMIT),
    ),
    Proof(
        "disk-limit",
        "The writable folders end at their sizes, and there are no others",
        "Otherwise one program fills the host's memory or disk.",
        _DISK,
        {
            "work_mib": PROOF_WORK_MIB,
            "tmp_mib": PROOF_WORK_MIB,
            "shm_mib": PROOF_WORK_MIB,
        },
        _says("full full full"),
        "use an image without VOLUME, made for sandboxes (docs/setup.md, “The sandbox image”)",
    ),
    Proof(
        "output-limit",
        "A flood of output is cut",
        "Otherwise one program fills the chat, and the server's memory.",
        _FLOOD,
        {"output_mib": 1},
        _ends_as(Outcome.OUTPUT_LIMIT),
    ),
    Proof(
        "no-network",
        "There is no network",
        "Otherwise programs reach your internal services, or send data away.",
        _NETWORK,
        {},
        _says("closed"),
        "give the runtime the argument --network=none in /etc/docker/daemon.json, then: sudo "
        "systemctl restart docker",
    ),
)


def host_file_proof(path: str, hosts: str) -> Proof:
    """That a program cannot read the file at ``path`` of this machine, and is told none of
    the names in ``hosts``, which is what its /etc/hosts holds."""
    names = _names_in(hosts)

    def holds(result: RunResult) -> bool:
        said, _, theirs = str(result.stdout).partition("\n")
        return said == "hidden" and not names & _names_in(theirs)

    return Proof(
        "no-host-files",
        "Files of this machine cannot be read",
        "Otherwise programs read your secrets.",
        _READ.format(path=path),
        {},
        holds,
        "use an image that was made for sandboxes (docs/setup.md, “The sandbox image”); where "
        "names of /etc/hosts are seen, give Podman a containers.conf as in docs/setup.md",
    )


def _names_in(hosts: str) -> set[str]:
    """The host names in a file as hosts(5) describes it, without the usual ones."""
    lines = (line.partition("#")[0].split() for line in hosts.splitlines())
    names = {name.lower() for line in lines for name in line[1:]}
    return {name for name in names if not _USUAL_HOSTS.match(name)}


PROOF_NAMES = (
    *(proof.name for proof in PROOFS),
    "no-host-files",
    "nothing-left",
)


def accepted_names(text: str) -> tuple[str, ...]:
    """The names in a setting, with commas between them. Raises InvalidRequest for one that no
    proof has: an administrator accepts exactly what is meant."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in PROOF_NAMES:
            known = ", ".join(PROOF_NAMES)
            raise InvalidRequest(
                f"There is no proof “{name[:40]}”: use any of {known}."
            )
    return names


# ===== end sandbox_core/proofs.py =====

# ===== begin owui_plugin/valves.py =====

"""The valves of both plugins, as Open WebUI's forms show them and pydantic checks them."""

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


# ===== end owui_plugin/valves.py =====

# ===== begin sandbox_core/engines/docker_errors.py =====

"""The one place where errors of the docker SDK and its transport become ours.

The SDK speaks to Podman as well, so the sentences have a place for the engine's name.
"""

_RUNTIME_WORDS = (
    "runtime name",  # not registered: "unknown or invalid runtime name" and the like
    "unknown runtime",
    "unable to retrieve oci runtime error",  # its binary is gone, or is no runtime
)
_NO_PROGRAM_WORDS = ("error finding executable", "executable file not found")
_MISSING_PACKAGE = (
    "The Python package “docker” is missing where Open WebUI runs. Install it there "
    "(pip install docker) and try again."
)
_NOT_REACHED = (
    "The container engine cannot be reached, so nothing was run. An administrator should "
    "check that {engine} is running and that this service may use it; then try again."
)
_NO_ANSWER = (
    "The container engine did not answer in time, so nothing was run. An administrator "
    "should check {engine}; then try again."
)
NO_SSH = (
    "The container engine cannot be used by ssh, so nothing was run. An administrator should "
    "forward its socket (ssh -L) and name that one, or use TLS; then try again."
)
_NOT_ALLOWED = (
    "This service is not allowed to use the container engine, so nothing was run. An "
    "administrator should give it access to {engine}; then try again."
)
_NO_IMAGE = "The sandbox image is not on this host, so nothing was run."
_NO_RUNTIME = (
    "gVisor is not set up on this host, so nothing was run: {engine} cannot use the runtime "
    "“runsc”. An administrator should install and register it (docs/setup.md, “gVisor”)."
)
_NO_PYTHON = (
    "The sandbox image has no python3, so nothing was run. An administrator should build it "
    "again (docs/setup.md, “The sandbox image”)."
)
_REFUSED = (
    "The container engine refused to start the sandbox. An administrator should look at "
    "the log and run the doctor (docs/setup.md)."
)


@contextmanager
def docker_errors_mapped(engine: str) -> Iterator[None]:
    """Turn whatever the docker SDK raises inside into an EngineError. ``engine`` is the name
    of what it speaks to."""
    try:
        yield
    except EngineError:
        raise
    except Exception as error:
        raise engine_error_from(error, engine) from error


def engine_error_from(error: Exception, engine: str) -> EngineError:
    """The EngineError for an exception of the docker SDK, requests, urllib3 or the system.

    Raises the same exception again when it is none of theirs: that is a fault of ours.
    """
    if isinstance(error, ModuleNotFoundError) and error.name == "docker":
        return EngineError(_MISSING_PACKAGE, repr(error))

    from docker.errors import APIError, DockerException, StreamParseError
    from requests.exceptions import RequestException, Timeout
    from urllib3.exceptions import HTTPError, TimeoutError

    detail = f"{type(error).__name__}: {error}"
    if isinstance(error, APIError):
        return _error_from_answer(detail, engine)
    if isinstance(error, (Timeout, TimeoutError)) or "Read timed out" in detail:
        return EngineUnavailable(_NO_ANSWER.format(engine=engine), detail)
    if "PermissionError" in detail or "Permission denied" in detail:
        return EngineUnavailable(_NOT_ALLOWED.format(engine=engine), detail)
    theirs = (RequestException, DockerException, StreamParseError, HTTPError, OSError)
    if isinstance(error, theirs):
        return EngineUnavailable(_NOT_REACHED.format(engine=engine), detail)
    raise error


def _error_from_answer(detail: str, engine: str) -> EngineError:
    text = detail.lower()
    if "no such image" in text:
        return ImageMissing(_NO_IMAGE, detail)
    if any(words in text for words in _RUNTIME_WORDS):
        return RuntimeMissing(_NO_RUNTIME.format(engine=engine), detail)
    if any(words in text for words in _NO_PROGRAM_WORDS):
        return StartFailed(_NO_PYTHON, detail)
    return StartFailed(_REFUSED, detail)


# ===== end sandbox_core/engines/docker_errors.py =====

# ===== begin sandbox_core/engines/docker_api.py =====

"""Docker's low-level client with a time-out for every call and our errors."""

_CALL_SECONDS = 10.0
_PULL_SECONDS = 600.0


class DockerApi:
    """Calls to one daemon, from any thread. ``address`` is as in DOCKER_HOST; "" means the
    default socket. ``engine`` is its name in errors.

    Each call has a client of its own, which costs less than a millisecond: the SDK's keeps a
    connection for each address that it was ever asked for, and its time-out is an attribute.
    """

    def __init__(self, address: str, engine: str) -> None:
        self._address = address
        self._engine = engine
        self._version = ""

    def call(self, deadline: Deadline, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of docker.APIClient. Raises EngineError."""
        with self.client(deadline) as client:
            return getattr(client, method)(*args, **kwargs)

    def events(
        self, deadline: Deadline, container_id: str, kinds: list[str], since: int
    ) -> list[dict[str, Any]]:
        """What the daemon remembers of a container, oldest first. Raises EngineError."""
        with self.client(deadline) as client:
            stream = client.events(
                since=since,
                # Not in the future, or the daemon would wait for more to happen.
                until=f"{time.time():.3f}",
                filters={"container": [container_id], "event": kinds},
                decode=True,
            )
            try:
                return list(stream)
            finally:
                stream.close()

    def client(self, deadline: Deadline) -> AbstractContextManager[Any]:
        """A docker.APIClient for one call that has no method there. Raises EngineError, also
        for what is raised inside."""
        return self._client(_seconds_until(deadline))

    def pull(self, image: str) -> None:
        """Fetch an image from its registry, which may take minutes. Raises EngineError."""
        with self._client(_PULL_SECONDS) as client:
            client.pull(image)

    @contextmanager
    def _client(self, seconds: float) -> Iterator[Any]:
        """A client whose every request takes ``seconds`` at most. Raises EngineError."""
        with docker_errors_mapped(self._engine):
            import docker
            from docker.utils import kwargs_from_env

            address = self._address
            if address.startswith("ssh://"):
                raise EngineUnavailable(NO_SSH, address)
            where: dict[str, Any] = {"base_url": address}
            if not address.startswith("unix://"):
                # With TLS as DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say.
                where = dict(kwargs_from_env({**os.environ, "DOCKER_HOST": address}))
            # Asking the daemon for its version costs a round trip: once is enough.
            where |= {"version": self._version or "auto", "timeout": seconds}
            client = docker.APIClient(**where)
            self._version = client.api_version
            _make_punctual(client)
            # No proxy leads to a socket; and requests goes through os.environ for each call,
            # which fails when another thread changes it.
            client.trust_env = not address.startswith("unix://")
            try:
                yield client
            finally:
                client.close()


def _seconds_until(deadline: Deadline) -> float:
    return max(0.1, min(_CALL_SECONDS, deadline.remaining()))


def _make_punctual(client: Any) -> None:
    """Give a time-out to the calls for which the SDK has none (attach, events, wait)."""
    request = client.request

    def request_in_time(*args: Any, **kwargs: Any) -> Any:
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = client.timeout
        return request(*args, **kwargs)

    client.request = request_in_time


# ===== end sandbox_core/engines/docker_api.py =====

# ===== begin sandbox_core/engines/docker_channel.py =====

"""The byte channel to one sandbox: the hijacked connection of Docker's attach call.

From Docker come records of a stream number, three zero bytes, a 4-byte big-endian length
and data (Docker Engine API, "ContainerAttach"). stdout is the channel; what the sandbox
writes to stderr is kept, bounded, as diagnostics.
"""

_CHUNK = 1 << 18
_KILL_PATIENCE = 1.5
_CLOSE_PATIENCE = 5.0  # nobody waits for it
_REMOVE_SECONDS = 10.0
_SIGKILLED = 137
_POLL_GONE = getattr(select, "POLLRDHUP", 0)  # Linux has it
_LONGEST_DIAGNOSTICS = 4096
_STDOUT = 1
_NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class StreamRecords:
    """Splits the attach stream into stdout bytes and bounded diagnostics."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._stream = 0
        self._left = 0
        self._untrusted_diagnostics = bytearray()

    @property
    def untrusted_diagnostics(self) -> str:
        """What came on the other streams, at most 4 KiB of it."""
        return self._untrusted_diagnostics.decode("utf-8", "replace")

    def feed(self, data: memoryview) -> bytes:
        """Take bytes as they came; return the stdout bytes among them."""
        stdout = []
        while data:
            if self._left == 0:
                data = self._read_header(data)
                continue
            part, data = data[: self._left], data[self._left :]
            self._left -= len(part)
            if self._stream == _STDOUT:
                stdout.append(part)
            else:
                room = _LONGEST_DIAGNOSTICS - len(self._untrusted_diagnostics)
                self._untrusted_diagnostics += part[:room]
        return b"".join(stdout)

    def _read_header(self, view: memoryview) -> memoryview:
        missing = 8 - len(self._header)
        self._header += view[:missing]
        if len(self._header) == 8:
            self._stream = self._header[0]
            self._left = int.from_bytes(self._header[4:], "big")
            self._header.clear()
        return view[missing:]


class DockerChannel:
    """A Channel over one attached container. See Channel for who calls what."""

    def __init__(self, api: DockerApi, container_id: str, attached: Any) -> None:
        self._api = api
        self._container_id = container_id
        self._attached = attached
        self._socket: socket.socket = getattr(attached, "_sock", attached)
        self._socket.setblocking(False)
        self._records = StreamRecords()
        self._buffer = memoryview(bytearray(_CHUNK))
        self._made_at = time.time()
        self._started = False
        self._ended_by_itself = False
        self._killed = threading.Event()
        self._lock = threading.Lock()
        self._report: KillReport | None = None

    def start(self, deadline: Deadline) -> None:
        """Start the container. Called once, by the engine. Raises EngineError."""
        self._api.call(deadline, "start", self._container_id)
        self._started = True

    def send(self, data: bytes, deadline: Deadline) -> None:
        """See Channel.send."""
        view = memoryview(data)
        while view:
            if self._killed.is_set():
                raise ChannelClosed("The sandbox was stopped.")
            if deadline.passed():
                raise StartFailed(
                    "The sandbox did not take its files in time. Try again."
                )
            state = self._wait_for(
                select.POLLOUT | _POLL_GONE, min(0.2, deadline.remaining())
            )
            if not state:
                continue
            if state & _POLL_GONE and not self._killed.is_set():
                # Docker goes on taking what nobody will read, until its buffers are full.
                self._ended_by_itself = True
                raise ChannelClosed("The sandbox ended unexpectedly.")
            try:
                view = view[self._socket.send(view) :]
            except _NOT_YET:
                continue
            except OSError as error:
                raise ChannelClosed(
                    "The sandbox ended unexpectedly.", repr(error)
                ) from error

    def recv(self, timeout: float) -> bytes | None:
        """See Channel.recv."""
        end = Deadline(timeout)
        while not self._killed.is_set():
            if not self._wait_for(select.POLLIN, end.remaining()):
                return None
            try:
                size = self._socket.recv_into(self._buffer)
            except _NOT_YET:
                continue
            except OSError:
                return b""
            if not size:
                self._ended_by_itself = not self._killed.is_set()
                return b""
            stdout = self._records.feed(self._buffer[:size])
            if stdout:
                return stdout
            if end.passed():
                return None
        return b""

    def _wait_for(self, events: int, seconds: float) -> int:
        """The poll events that are there now; 0 when none came in time."""
        poll = select.poll()
        try:
            # Of what TLS has read ahead the socket itself knows nothing.
            if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
                return events
            poll.register(self._socket, events)
        except ValueError:  # closed by a kill in another thread
            return events
        return next((state for _, state in poll.poll(seconds * 1000)), 0)

    def close_send(self) -> None:
        """See Channel.close_send."""
        with suppress(OSError):  # it may be closed already
            self._socket.shutdown(socket.SHUT_WR)

    def kill(self) -> KillReport:
        """See Channel.kill."""
        return self._end(_KILL_PATIENCE)

    def _end(self, patience: float) -> KillReport:
        """The socket goes first: while an attached client does not read, Docker's own kill,
        inspect and remove hang."""
        self._killed.set()
        with self._lock:
            if self._report is None or self._report.may_linger:
                with suppress(OSError):  # it may be closed already
                    self._socket.shutdown(socket.SHUT_RDWR)
                self._report = remove_container(
                    self._api, self._container_id, patience if self._started else 0.0
                )
            return self._report

    def ended(self, deadline: Deadline) -> Ended:
        """See Channel.ended. The container may be gone already, so the daemon's recent events
        are asked: they hold the exit code, and whether its memory limit was hit."""
        try:
            events = self._api.events(
                deadline, self._container_id, ["oom", "die"], int(self._made_at) - 1
            )
        except EngineError:
            diagnostics = self._records.untrusted_diagnostics
            return Ended(None, None, diagnostics, may_linger=True)
        codes = [
            int(event["Actor"]["Attributes"]["exitCode"])
            for event in events
            if event["Action"] == "die"
        ]
        exit_code = codes[0] if codes else None
        oom = any(event["Action"] == "oom" for event in events) or (
            self._ended_by_itself and self._looks_like_oom(exit_code)
        )
        lingers = self._report is not None and self._report.may_linger
        return Ended(exit_code, oom, self._records.untrusted_diagnostics, lingers)

    def _looks_like_oom(self, exit_code: int | None) -> bool:
        """Docker misses the event when the whole sandbox dies at once. Then, what ended it
        with SIGKILL before we did was the kernel."""
        return exit_code == _SIGKILLED

    def close(self) -> None:
        """See Channel.close."""
        self._end(_CLOSE_PATIENCE)
        self._socket.close()
        response = getattr(self._attached, "_response", None)
        if response is not None:
            response.close()


def remove_container(
    api: DockerApi, container_id: str, patience: float = 0.0
) -> KillReport:
    """Make sure that a container is gone.

    For ``patience`` seconds it may end and go by itself: its guest does so when its stdin
    ends. To kill a sandbox that is just ending, with many processes in it, can make Docker
    wait a second for each of them (containerd reaps them behind its own kill command).
    """
    if patience and _is_removed(api, container_id, Deadline(patience)):
        return KillReport()
    deadline = Deadline(_REMOVE_SECONDS)
    while True:
        try:
            api.call(deadline, "remove_container", container_id, force=True, v=True)
            return KillReport()
        except EngineError as error:
            if _says_gone(error):
                return KillReport()
            if isinstance(error, EngineUnavailable) or deadline.passed():
                return KillReport(may_linger=True, detail=error.detail)
        time.sleep(0.05)  # the daemon is removing it on its own


def _is_removed(api: DockerApi, container_id: str, deadline: Deadline) -> bool:
    try:
        api.call(deadline, "wait", container_id, condition="removed")
    except EngineError as error:
        return _says_gone(error)
    return True


def _says_gone(error: EngineError) -> bool:
    return "no such container" in error.detail.lower()


# ===== end sandbox_core/engines/docker_channel.py =====

# ===== begin sandbox_core/engines/docker_routes.py =====

"""The ways out of sandboxes, as Docker makes them: for each run an internal network with the
proxy on it, which goes when the run ends.

On a network of its own a sandbox finds no other one. The host has no address on it, because of
``inhibit_ipv4``: an internal network alone leaves all of the host's addresses open.
"""

_LIST_ROUTES_SECONDS = 10.0
_CLOSE_ROUTE_SECONDS = 20.0
_TAKEN_WORDS = ("overlap", "conflicts with")
_NO_PROXY = (
    "The proxy to the network is not running, so nothing was run. An administrator should "
    "start it (docs/network.md); then try again."
)
_NO_SUBNET = (
    "There is no free network for this run. Try again in a minute; if it stays, an "
    "administrator should set egress_subnets to an unused range (docs/network.md)."
)


class DockerRoutes:
    """Makes and removes them, from any thread."""

    def __init__(self, api: DockerApi) -> None:
        self._api = api

    def open(
        self,
        way: EgressSettings,
        mode: str,
        run_id: str,
        owner: str,
        expires_at: float,
        deadline: Deadline,
    ) -> Route:
        """See Engine.open_route."""
        self._check_proxy(way.container, deadline)
        name = route_name(mode, run_id)
        labels = {
            LABEL_OWNER: owner,
            LABEL_RUN: run_id,
            LABEL_EXPIRES: str(int(expires_at)),
        }
        proxy = self._create(name, way.subnets, labels, deadline)
        try:
            self._api.call(
                deadline,
                "connect_container_to_network",
                way.container,
                name,
                ipv4_address=proxy,
            )
        except EngineError:
            self._remove(name, Deadline(_CLOSE_ROUTE_SECONDS))
            raise
        return Route(name, proxy)

    def close(self, route: Route) -> None:
        """See Engine.close_route."""
        self._remove(route.network, Deadline(_CLOSE_ROUTE_SECONDS))

    def leftovers(self) -> list[Lease]:
        """All networks of runs. Raises EngineError."""
        listed = self._api.call(
            Deadline(_LIST_ROUTES_SECONDS), "networks", filters={"label": LABEL_OWNER}
        )
        return [_lease_of_network(entry) for entry in listed]

    def remove(self, lease: Lease) -> None:
        """Remove one of leftovers(). Raises EngineError."""
        self._remove(lease.sandbox_id, Deadline(_LIST_ROUTES_SECONDS))

    def _check_proxy(self, container: str, deadline: Deadline) -> None:
        try:
            state = self._api.call(deadline, "inspect_container", container)["State"]
        except EngineError as error:
            if "No such container" in error.detail:
                raise EngineError(_NO_PROXY, error.detail) from error
            raise
        if not state.get("Running"):
            raise EngineError(_NO_PROXY, f"{container} is {state.get('Status')}")

    def _create(
        self, name: str, subnets: str, labels: dict[str, str], deadline: Deadline
    ) -> str:
        """Make the network in the first subnet that is free; returns the proxy's address."""
        problem = ""
        for subnet, proxy in route_subnets(subnets):
            try:
                self._api.call(
                    deadline,
                    "create_network",
                    name,
                    driver="bridge",
                    internal=True,
                    check_duplicate=True,
                    labels=labels,
                    options={"com.docker.network.bridge.inhibit_ipv4": "true"},
                    ipam={"Driver": "default", "Config": [{"Subnet": subnet}]},
                )
                return proxy
            except EngineError as error:
                problem = error.detail
                if not any(words in problem for words in _TAKEN_WORDS):
                    raise
        raise EngineError(_NO_SUBNET, problem)

    def _remove(self, network: str, deadline: Deadline) -> None:
        """Take off whoever is on it, and remove it. Raises EngineError when it stays."""
        while True:
            try:
                seen = self._api.call(deadline, "inspect_network", network)
                for container in seen.get("Containers") or {}:
                    self._take_off(container, network, deadline)
                self._api.call(deadline, "remove_network", network)
                return
            except EngineError as error:
                if _says_no_network(error):
                    return
                if deadline.passed():
                    raise
            time.sleep(0.1)

    def _take_off(self, container: str, network: str, deadline: Deadline) -> None:
        # It may be going by itself. Whether it is gone, the network's removal tells.
        with suppress(EngineError):
            self._api.call(
                deadline,
                "disconnect_container_from_network",
                container,
                network,
                force=True,
            )


def _says_no_network(error: EngineError) -> bool:
    """Not so for an endpoint that is not found."""
    return re.search(r"\bnetwork \S+ not found", error.detail) is not None


def _lease_of_network(entry: dict[str, Any]) -> Lease:
    labels = entry["Labels"]
    expires = labels.get(LABEL_EXPIRES, "")
    return Lease(
        sandbox_id=entry["Id"],
        run_id=labels.get(LABEL_RUN, ""),
        owner=labels[LABEL_OWNER],
        expires_at=float(expires) if expires.isdigit() else 0.0,
        is_network=True,
    )


# ===== end sandbox_core/engines/docker_routes.py =====

# ===== begin sandbox_core/engines/machine.py =====

"""What of this machine may keep gVisor from running, in words, and commands that fit it.

The facts are read in one place; what follows from them are pure functions. Sources: gVisor's
page on its requirements; proc(5), os-release(5), kernel documentation of yama and AppArmor.
"""

_PAGE_BYTES = 4096
_ARCHITECTURES = ("x86_64", "aarch64")
_OLDEST_KERNEL = (4, 14, 77)
_USUAL_ADDRESS_BITS = 47
_DEBIAN_WITH_RUNSC = 13
_WHY_NOTHING_RUNS = "Without it no sandbox starts, so no code is run."


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts of the machine, or of the container, in which we are. The defaults are those of
    one on which everything works.

    ``address_bits`` are those of a process; 0 when they cannot be told, as for
    ``user_namespaces``, the most that one user may have: -1.
    """

    architecture: str = "x86_64"
    kernel: str = "6.1.0"
    page_bytes: int = _PAGE_BYTES
    address_bits: int = _USUAL_ADDRESS_BITS
    user_namespaces: int = -1
    system: str = "debian"
    system_version: str = "13"
    has_systemd: bool = True
    in_container: bool = False
    has_seccomp_filter: bool = False
    apparmor_restricts: bool = False
    selinux_enforces: bool = False


def read_machine(root: Path = Path("/")) -> Machine:
    """The facts of this machine. Never raises: what cannot be read is as usual."""
    release = dict(
        re.findall(r'^(\w+)="?([^"\n]*)', _text(root / "etc/os-release"), re.M)
    )
    status = _text(root / "proc/self/status")
    stack = re.search(
        r"^[0-9a-f]+-([0-9a-f]+) .*\[stack\]$", _text(root / "proc/self/maps"), re.M
    )
    sysctl = root / "proc/sys"
    spaces = _text(sysctl / "user/max_user_namespaces").strip()
    restricts = _text(sysctl / "kernel/apparmor_restrict_unprivileged_userns").strip()
    return Machine(
        architecture=platform.machine(),
        kernel=platform.release(),
        page_bytes=os.sysconf("SC_PAGE_SIZE"),
        address_bits=int(stack[1], 16).bit_length() if stack else 0,
        user_namespaces=int(spaces) if spaces.isdigit() else -1,
        system=release.get("ID", ""),
        system_version=release.get("VERSION_ID", ""),
        has_systemd=(root / "run/systemd/system").is_dir(),
        in_container=any(
            (root / name).exists() for name in (".dockerenv", "run/.containerenv")
        ),
        has_seccomp_filter=bool(re.search(r"^Seccomp:\s*2$", status, re.M)),
        apparmor_restricts=restricts == "1",
        selinux_enforces=_text(root / "sys/fs/selinux/enforce").strip() == "1",
    )


def machine_obstacles(machine: Machine, rootless: bool = False) -> list[Finding]:
    """What surely keeps gVisor from running here. ``rootless``: it starts as a user who needs
    a user namespace for that."""
    found = []
    if machine.architecture not in _ARCHITECTURES:
        found.append(
            _no(
                f"gVisor does not run on processors of the kind {machine.architecture}.",
                "use a machine with x86-64 or arm64, and set DOCKER_HOST to its engine",
            )
        )
    if machine.page_bytes != _PAGE_BYTES:
        found.append(
            _no(
                f"The kernel has memory pages of {machine.page_bytes // 1024} KB; gVisor "
                "needs 4 KB.",
                "boot a kernel with 4 KB pages (uname -r has often “64k” in its name)",
            )
        )
    numbers = tuple(int(part) for part in re.findall(r"\d+", machine.kernel)[:3])
    if numbers and numbers < _OLDEST_KERNEL:
        found.append(
            _no(
                f"The kernel is {machine.kernel}; gVisor needs 4.14.77 or newer.",
                "update the system",
            )
        )
    if rootless and machine.user_namespaces == 0:
        found.append(
            _no(
                "User namespaces are switched off, which gVisor needs for a user who is "
                "not root.",
                "sudo sysctl -w user.max_user_namespaces=10000",
            )
        )
    return found


def machine_suspects(machine: Machine, embedded: bool) -> list[Finding]:
    """What may be the cause when no sandbox starts; ``embedded``: without Docker."""
    found = []
    if embedded and machine.has_seccomp_filter:
        found.append(
            _maybe(
                "A seccomp filter is on this process. Docker's usual one refuses the calls "
                "that gVisor makes namespaces with.",
                "docker run --security-opt seccomp=unconfined …   # Kubernetes: "
                "seccompProfile: {type: Unconfined}",
            )
        )
    if embedded and machine.apparmor_restricts:
        found.append(
            _maybe(
                "AppArmor lets only some programs make user namespaces here.",
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            )
        )
    if machine.selinux_enforces:
        found.append(
            _maybe(
                "SELinux is enforcing, and its rules may refuse what gVisor does.",
                "sudo ausearch -m avc -ts recent   # shows what was refused; then: sudo "
                "audit2allow",
            )
        )
    if 0 < machine.address_bits < _USUAL_ADDRESS_BITS:
        found.append(
            _maybe(
                f"A process here has addresses of {machine.address_bits} bits; gVisor "
                f"expects {_USUAL_ADDRESS_BITS} or more.",
                "boot a kernel with 48-bit addresses (CONFIG_ARM64_VA_BITS_48)",
            )
        )
    if "microsoft" in machine.kernel.lower():
        found.append(
            _maybe(
                "This is WSL. Its first version has no Linux kernel, and Docker Desktop's "
                "engine has no gVisor.",
                "wsl --set-version DISTRIBUTION 2   # and install docker.io in it",
            )
        )
    return found


def runsc_install_command(machine: Machine) -> str:
    """What puts gVisor's program onto this machine, or where to read how."""
    major = machine.system_version.partition(".")[0]
    from_debian = machine.system == "debian" and major.isdigit()
    if machine.in_container:
        return (
            "mount runsc into this container, or put it into the image (docs/setup.md)"
        )
    if from_debian and int(major) >= _DEBIAN_WITH_RUNSC:
        return "sudo apt-get install runsc"
    return "install runsc as docs/setup.md says (“gVisor”)"


def runsc_upgrade_command(machine: Machine) -> str:
    """What brings gVisor's newest release onto this machine, or where to read how."""
    if machine.system in ("debian", "ubuntu") and not machine.in_container:
        return "sudo apt-get update && sudo apt-get install --only-upgrade runsc"
    return "install the newest runsc as docs/setup.md says (“gVisor”)"


def restart_docker_command(machine: Machine) -> str:
    """What makes the Docker Engine of this machine read its configuration again."""
    if machine.in_container:
        return "restart Docker on its host"
    return f"sudo {'systemctl restart docker' if machine.has_systemd else 'service docker restart'}"


def _no(text: str, mend: str) -> Finding:
    return Finding("machine", False, text, mend, _WHY_NOTHING_RUNS)


def _maybe(text: str, mend: str) -> Finding:
    return Finding(
        "machine", False, f"{text} This may be the cause.", mend, _WHY_NOTHING_RUNS
    )


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


# ===== end sandbox_core/engines/machine.py =====

# ===== begin sandbox_core/hardening.py =====

"""The one place that decides what a sandbox container may do.

Pure functions from limits to the body of Docker's ``POST /containers/create`` (Docker Engine
API 1.41, "ContainerCreate") and to an OCI bundle; tests pin the results. Each option has its
reason.
"""

WORK_FOLDER = "/mnt/data"
HOME_FOLDER = "/tmp/home"
PACKAGES_FOLDER = "/packages"
TMPFS_FOLDERS = (WORK_FOLDER, "/tmp", "/dev/shm")
GUEST_UID = 1000
CPU_PERIOD_US = 100_000
RESERVE_MIB = 128

_GUEST_MIB = 64
# Preloaded modules are not the program's memory: numpy, pandas and matplotlib take 100 MB.
WARM_MIB = 160
_PIDS = 4096
# The guest drops to the program's user and kills its processes; nothing more.
_CAPABILITIES = ("SETUID", "SETGID", "KILL")
_GUEST_FILES = 256


def container_memory_bytes(
    limits: Limits, warm: bool = False, packages_mib: int = 0
) -> int:
    """The container's memory limit: the second wall behind the guest's own watch.

    gVisor keeps tmpfs files in the sandbox's memory, so their sizes are added: filling the
    work folder must not take memory from the program. The reserve is what the guest's watch
    needs to act before the kernel does.
    """
    mib = limits.memory_mib + limits.tmpfs_mib + RESERVE_MIB + _GUEST_MIB + packages_mib
    if warm:
        mib += WARM_MIB
    return mib * MIB


def container_cpus(limits: Limits) -> float:
    """The container's share of processors: a tenth more than the program's, because gVisor's
    own threads count too. Without it, a program that calculates loses up to a fifth.
    """
    return limits.cpus * 1.1


def cpu_quota_us(cpus: float) -> int:
    """What of each CPU_PERIOD_US so many processors are; the kernel takes no less than 1 ms."""
    return max(1000, round(cpus * CPU_PERIOD_US))


def host_threads(limits: Limits) -> int:
    """How many threads a sandbox may have on the host.

    The program's own limit is RLIMIT_NPROC. This one counts gVisor's threads: a low one kills
    the sandbox, none at all lets a fork bomb hang Docker's shim.
    """
    return max(_PIDS, 8 * limits.processes)


def container_config(
    image: str,
    runtime: str,
    argv: tuple[str, ...],
    limits: Limits,
    labels: dict[str, str],
    warm: bool = False,
    data_folders: tuple[DataFolder, ...] = (),
    network: str = "",
    packages_mib: int = 0,
) -> dict[str, Any]:
    """The whole configuration of one sandbox container; ``warm``: with an interpreter that waits.
    ``network`` and ``packages_mib`` are as in SandboxSpec."""
    memory = container_memory_bytes(limits, warm, packages_mib)
    return {
        "Image": image,
        # The image's own entry point is not ours to trust: the guest is the first process.
        "Entrypoint": list(argv),
        "Cmd": [],
        "Env": [],
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": labels,
        # Root of the container only to drop to the program's user, see CapAdd.
        "User": "0:0",
        # The channel is stdin and stdout. StdinOnce: when we die, Docker closes the guest's
        # stdin, and the guest ends.
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "NetworkDisabled": not network,
        # An image's health check would start processes in the sandbox.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            # gVisor: system calls of the program never reach the host's kernel.
            "Runtime": runtime,
            # Only what installs packages has one: an internal network with the index on it.
            "NetworkMode": network or "none",
            # The container is gone when the guest ends, even if nobody is left to remove it.
            "AutoRemove": True,
            "RestartPolicy": {"Name": "no"},
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "CapAdd": list(_CAPABILITIES),
            "SecurityOpt": ["no-new-privileges"],
            "IpcMode": "private",
            "Tmpfs": _tmpfs_options(limits, packages_mib),
            "Mounts": [_data_mount(folder) for folder in data_folders],
            # Equal, so that there is no swap.
            "Memory": memory,
            "MemorySwap": memory,
            # Not NanoCpus: Docker refuses more of them than the host has.
            "CpuPeriod": CPU_PERIOD_US,
            "CpuQuota": cpu_quota_us(container_cpus(limits)),
            "PidsLimit": host_threads(limits),
            "Ulimits": [
                {"Name": "core", "Soft": 0, "Hard": 0},
                {
                    "Name": "nofile",
                    "Soft": limits.open_files + _GUEST_FILES,
                    "Hard": limits.open_files + _GUEST_FILES,
                },
            ],
            # A log file on the host would grow with the output; the channel is all we read.
            "LogConfig": {"Type": "none", "Config": {}},
        },
    }


def bundle_config(
    root: str,
    argv: tuple[str, ...],
    env: tuple[str, ...],
    limits: Limits,
    cgroup: str = "",
    data_folders: tuple[DataFolder, ...] = (),
    packages_mib: int = 0,
) -> dict[str, Any]:
    """The same sandbox as an OCI bundle's config.json (OCI runtime specification 1.0,
    "config.md"), for a runsc without Docker. ``root`` is the folder of the image's files and
    ``env`` its environment; ``cgroup`` is the path of a control group that has the limits of
    the host's side already, or empty."""
    capabilities = [f"CAP_{name}" for name in _CAPABILITIES]
    config: dict[str, Any] = {
        "ociVersion": "1.0.2",
        "hostname": "sandbox",
        "root": {"path": root, "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": list(argv),
            "env": list(env),
            "cwd": "/",
            "noNewPrivileges": True,
            "capabilities": {
                kind: capabilities for kind in ("bounding", "effective", "permitted")
            },
            "rlimits": [
                {"type": "RLIMIT_CORE", "soft": 0, "hard": 0},
                {
                    "type": "RLIMIT_NOFILE",
                    "soft": limits.open_files + _GUEST_FILES,
                    "hard": limits.open_files + _GUEST_FILES,
                },
            ],
        },
        # gVisor makes these three itself; nothing of them is the host's.
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs"},
            *(
                {
                    "destination": folder,
                    "type": "tmpfs",
                    "source": "tmpfs",
                    "options": options.split(","),
                }
                for folder, options in _tmpfs_options(limits, packages_mib).items()
            ),
            *(
                {
                    "destination": folder.target,
                    "type": "bind",
                    "source": folder.path,
                    "options": ["rbind", "rprivate", "ro", "nosuid", "nodev"],
                }
                for folder in data_folders
            ),
        ],
        "linux": {
            "namespaces": [
                {"type": kind} for kind in ("pid", "ipc", "uts", "mount", "network")
            ],
        },
    }
    if cgroup:
        config["linux"]["cgroupsPath"] = cgroup
    return config


def runsc_flags(platform: str, rootless: bool, cgroup: bool) -> tuple[str, ...]:
    """The options of a runsc that runs such a bundle, each with its reason."""
    return (
        f"--platform={platform}",
        # No network but a loopback of its own, and no socket or pipe of the host.
        "--network=none",
        "--host-uds=none",
        "--host-fifo=none",
        # The root is read-only and its folders are tmpfs: no file of the host is written.
        "--overlay2=none",
        # The sandbox runs as nobody, in an empty root and a user namespace of its own, and
        # asks a second process for each file of its image.
        "--directfs=false",
        *(("--rootless",) if rootless else ()),
        *(() if cgroup else ("--ignore-cgroups",)),
    )


def _tmpfs_options(limits: Limits, packages_mib: int) -> dict[str, str]:
    """The only writable folders; their sizes are the disk quota. Docker's default is noexec,
    which would refuse to run a compiled program."""
    sizes = dict(
        zip(
            TMPFS_FOLDERS,
            (limits.work_mib, limits.tmp_mib, limits.shm_mib),
            strict=True,
        )
    )
    if packages_mib:
        sizes[PACKAGES_FOLDER] = packages_mib
    return {
        folder: f"rw,exec,nosuid,nodev,mode=1777,size={size}m"
        for folder, size in sizes.items()
    }


def _data_mount(folder: DataFolder) -> dict[str, Any]:
    """A folder that an administrator shows, with all that is mounted in it: never created, and
    never written. gVisor opens neither devices nor sockets of the host."""
    return {
        "Type": "bind",
        "Source": folder.path,
        "Target": folder.target,
        "ReadOnly": True,
        "BindOptions": {"Propagation": "rprivate"},
    }


# ===== end sandbox_core/hardening.py =====

# ===== begin sandbox_core/engines/docker.py =====

"""The engine over Docker's API: one hardened, single-use gVisor container per sandbox.

Four calls make a sandbox: create, attach, start, remove. Every call has a time-out, and
every attach has a connection of its own.
"""

_DOCKER_DESKTOP = "Docker Desktop"  # as it calls its system
_LIST_SECONDS = 10.0
_START_SECONDS = 15.0
_ATTACH = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}


class DockerEngine:
    """Sandboxes from a Docker Engine. ``docker_host`` is as in DOCKER_HOST; "" means the
    environment. ``image`` and ``runtime`` are those that check() looks for."""

    name = "docker"
    title = "Docker Engine"
    program = "docker"
    start_command = "sudo systemctl start docker"
    _api_class = DockerApi
    _channel_class = DockerChannel

    def __init__(
        self,
        docker_host: str = "",
        image: str = "run-code-python:latest",
        runtime: str = "runsc",
        pull_missing_image: bool = False,
    ) -> None:
        self._address = docker_host or os.environ.get("DOCKER_HOST", "")
        self._api = self._api_class(self._address, self.name.title())
        self._routes = DockerRoutes(self._api)
        self._image = image
        self._runtime = runtime
        self._pull_missing_image = pull_missing_image

    @property
    def is_here(self) -> bool:
        """See Engine.is_here."""
        return not self._address or self._address.startswith("unix://")

    def start(
        self, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
    ) -> DockerChannel:
        """See Engine.start."""
        try:
            container_id = self._create(spec, deadline)
        except ImageMissing:
            if not self._pull_missing_image:
                raise
            self._api.pull(spec.image)
            deadline = Deadline(_START_SECONDS)
            container_id = self._create(spec, deadline)
        try:
            attached = self._api.call(deadline, "attach_socket", container_id, _ATTACH)
        except EngineError:
            remove_container(self._api, container_id)
            raise
        channel = self._channel_class(self._api, container_id, attached)
        try:
            if cancel.is_set():
                raise ChannelClosed("The run was stopped on request.")
            channel.start(deadline)
        except BaseException:
            channel.close()
            raise
        return channel

    def _create(self, spec: SandboxSpec, deadline: Deadline) -> str:
        config = self._config(spec)
        try:
            made = self._api.call(deadline, "create_container_from_config", config)
        except ImageMissing as error:
            # The host of a registry is nobody's business in a chat.
            name = spec.image.rpartition("/")[2]
            advice = f"It is called {name}: an administrator should get it"
            if name == spec.image:
                advice += f" with {self._image_command(name)}"
            advice += " (docs/setup.md, “The sandbox image”); then try again."
            raise ImageMissing(f"{error} {advice}", error.detail) from error
        return str(made["Id"])

    def _image_command(self, image: str) -> str:
        if "/" in image:
            return f"{self.program} pull {image}"
        folder = "full" if image.startswith("run-code-full") else "python"
        return f"{self.program} build -t {image} images/{folder}"

    def _config(self, spec: SandboxSpec) -> dict[str, Any]:
        labels = {
            LABEL_OWNER: spec.owner,
            LABEL_RUN: spec.run_id,
            LABEL_EXPIRES: str(int(spec.expires_at)),
        }
        return container_config(
            spec.image,
            spec.runtime,
            spec.argv,
            spec.limits,
            labels,
            warm=bool(spec.waiting),
            data_folders=spec.data_folders,
            network=spec.network,
            packages_mib=spec.packages_mib,
        )

    def open_route(
        self,
        way: EgressSettings,
        mode: str,
        run_id: str,
        owner: str,
        expires_at: float,
        deadline: Deadline,
    ) -> Route:
        """See Engine.open_route."""
        return self._routes.open(way, mode, run_id, owner, expires_at, deadline)

    def close_route(self, route: Route) -> None:
        """See Engine.close_route."""
        self._routes.close(route)

    def leftovers(self) -> list[Lease]:
        """See Engine.leftovers."""
        listed = self._api.call(
            Deadline(_LIST_SECONDS),
            "containers",
            all=True,
            filters={"label": LABEL_OWNER},
        )
        sandboxes = [_lease_of(entry) for entry in listed]
        return [*sandboxes, *self._network_leases()]

    def _network_leases(self) -> list[Lease]:
        return self._routes.leftovers()

    def remove(self, lease: Lease) -> None:
        """See Engine.remove. Raises EngineError when it may still be there."""
        if lease.is_network:
            self._routes.remove(lease)
            return
        report = remove_container(self._api, lease.sandbox_id)
        if report.may_linger:
            raise EngineError(
                "A left-over sandbox could not be removed.", report.detail
            )

    def image_id(self, deadline: Deadline) -> str:
        """See Engine.image_id."""
        try:  # listing the images would cost the daemon 75 ms, and runs wait for this
            return str(self._api.call(deadline, "inspect_image", self._image)["Id"])
        except ImageMissing:
            return ""

    def check(self, deadline: Deadline) -> list[Finding]:
        """See Engine.check."""
        try:
            info = self._api.call(deadline, "info")
            image = self.image_id(deadline)
        except EngineError as error:
            mend = (
                f"{self.start_command}   # or set DOCKER_HOST / the valve docker_host"
            )
            return [Finding("engine", False, str(error), mend)]
        answers = f"{self.title} {info.get('ServerVersion')} answers."
        return [
            *(machine_obstacles(read_machine()) if self.is_here else []),
            Finding("engine", True, answers),
            self._check_runtime(info),
            self._check_image(bool(image)),
            *self._check_limits(info),
        ]

    def _check_limits(self, info: dict[str, Any]) -> list[Finding]:
        """What an engine says of the limits around a sandbox that it cannot hold; Docker
        refuses to start such a one."""
        return []

    def _check_runtime(self, info: dict[str, Any]) -> Finding:
        if self._runtime in (info.get("Runtimes") or {}):
            text = f"The runtime {self._runtime} is registered."
            return Finding("runtime", True, text)
        if info.get("OperatingSystem") == _DOCKER_DESKTOP:
            text = (
                "This is Docker Desktop, whose engine is in a machine without gVisor."
            )
            mend = (
                "use a Docker Engine on Linux (docs/setup.md, “Other systems”), and set "
                "DOCKER_HOST"
            )
            return Finding("runtime", False, text, mend)
        text = (
            f"{self.title} does not know the runtime {self._runtime}, so code cannot be "
            "isolated."
        )
        return Finding("runtime", False, text, self._mend_for_runtime())

    def _mend_for_runtime(self) -> str:
        restart = (
            restart_docker_command(read_machine())
            if self.is_here
            else "restart Docker there"
        )
        return f"sudo runsc install && {restart}"

    def _check_image(self, there: bool) -> Finding:
        if there:
            return Finding("image", True, f"The image {self._image} is there.")
        text = f"The image {self._image} is not on this host."
        command = self._image_command(self._image)
        mend = f"{command}   # or: {self.program} load -i image.tar"
        return Finding("image", False, text, mend)


def _lease_of(entry: dict[str, Any]) -> Lease:
    labels = entry["Labels"]
    expires = labels.get(LABEL_EXPIRES, "")
    return Lease(
        sandbox_id=entry["Id"],
        run_id=labels.get(LABEL_RUN, ""),
        owner=labels[LABEL_OWNER],
        expires_at=float(expires) if expires.isdigit() else 0.0,
    )


# ===== end sandbox_core/engines/docker.py =====

# ===== begin sandbox_core/engines/podman.py =====

"""Podman by way of its Docker-compatible socket: the Docker engine at another address, and
what Podman does otherwise (seen in 4.3)."""

_OF_ALL = "/run/podman/podman.sock"
# Podman puts writable folders without a size on a read-only root, unless they are named.
_ITS_OWN_FOLDERS = ("/run", "/var/tmp")


class PodmanApi(DockerApi):
    """Its events end only in the future, or when they are asked not to go on."""

    def events(
        self, deadline: Deadline, container_id: str, kinds: list[str], since: int
    ) -> list[dict[str, Any]]:
        """See DockerApi.events. A filter by kind knows Podman's own names only."""
        with self.client(deadline) as client:
            answer = client.get(
                f"{client.base_url}/v{client.api_version}/events",
                params={
                    "since": since,
                    "stream": "false",
                    "filters": json.dumps({"container": [container_id]}),
                },
            )
            answer.raise_for_status()
            events = [json.loads(line) for line in answer.text.splitlines() if line]
        return [event for event in events if event["Action"] in kinds]


class PodmanChannel(DockerChannel):
    """A Channel over one container of Podman, which does not see that memory ran out."""

    def _looks_like_oom(self, exit_code: int | None) -> bool:
        """The kernel ends the whole sandbox, or the part of gVisor that holds the guest: its
        exit code is 1 then, and a guest that fails by itself says why."""
        silent = not self._records.untrusted_diagnostics
        return super()._looks_like_oom(exit_code) or (exit_code == 1 and silent)


class PodmanEngine(DockerEngine):
    """Sandboxes from Podman. Without ``docker_host`` the environment says where it is, else
    the first of its usual sockets that exists."""

    name = "podman"
    title = "Podman"
    program = "podman"
    start_command = "systemctl --user start podman.socket"
    _api_class = PodmanApi
    _channel_class = PodmanChannel

    def __init__(
        self,
        docker_host: str = "",
        image: str = "run-code-python:latest",
        runtime: str = "runsc",
        pull_missing_image: bool = False,
    ) -> None:
        address = docker_host or podman_address(os.environ)
        super().__init__(address, image, runtime, pull_missing_image)

    def _config(self, spec: SandboxSpec) -> dict[str, Any]:
        config = super()._config(spec)
        host = config["HostConfig"]
        host["Tmpfs"] |= dict.fromkeys(_ITS_OWN_FOLDERS, "ro,size=4k")
        # As "Mounts" they would be without what is mounted in them, where gVisor cannot start.
        host["Mounts"] = []
        host["Binds"] = [
            f"{folder.path}:{folder.target}:ro,rbind,rprivate"
            for folder in spec.data_folders
        ]
        # It would give a timer of systemd to the health check that there is not to be.
        del config["Healthcheck"]
        return config

    def open_route(
        self,
        way: EgressSettings,
        mode: str,
        run_id: str,
        owner: str,
        expires_at: float,
        deadline: Deadline,
    ) -> Route:
        """See Engine.open_route: there is none here."""
        raise EngineError(NO_ROUTES)

    def _network_leases(self) -> list[Lease]:
        return []

    def _check_runtime(self, info: dict[str, Any]) -> Finding:
        """Podman's API runs each container in its usual runtime, whatever is asked for."""
        finding = super()._check_runtime(info)
        usual = str(info.get("DefaultRuntime"))
        # The name, or else the path of a program that has it.
        if not finding.ok or usual.rpartition("/")[2] == self._runtime:
            return finding
        text = f"Podman's usual runtime is {usual}, and its API takes no other."
        return Finding("runtime", False, text, self._mend_for_runtime())

    def _mend_for_runtime(self) -> str:
        return (
            f'give the service a CONTAINERS_CONF with runtime = "{self._runtime}" below '
            "[engine], and restart it (docs/setup.md, “Podman”)"
        )

    def _check_limits(self, info: dict[str, Any]) -> list[Finding]:
        """Only Podman's log says that it leaves limits out."""
        if not info.get("Rootless") or info.get("CgroupVersion") != "1":
            return []
        text = (
            "Podman limits nothing for this user, because control groups are of version 1: "
            "memory and processes are limited inside the sandbox only, processors not at all."
        )
        return [Finding("limits", True, text)]


def podman_address(environ: Mapping[str, str]) -> str:
    """Where Podman listens: as these variables say, else its socket of this user, else that
    of the whole machine."""
    for name in ("DOCKER_HOST", "CONTAINER_HOST"):
        if environ.get(name):
            return environ[name]
    paths = list(_usual_sockets(environ))
    return "unix://" + next((path for path in paths if Path(path).exists()), paths[-1])


def _usual_sockets(environ: Mapping[str, str]) -> Iterator[str]:
    if os.getuid() != 0:
        folder = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
        yield f"{folder}/podman/podman.sock"
    yield _OF_ALL


# ===== end sandbox_core/engines/podman.py =====

# ===== begin sandbox_core/engines/runsc_errors.py =====

"""The one place where what runsc says of itself becomes an error of ours."""

# runsc's own exit code when it could not make a sandbox (util.Fatalf).
RUNSC_FAILED = 128

_NO_RUNSC = (
    "gVisor's program “runsc” is not on this machine, so nothing was run. An administrator "
    "should install it (docs/setup.md, “Without Docker”)."
)
_RUNSC_NOT_ALLOWED = (
    "gVisor is not allowed to make a sandbox here, so nothing was run. An administrator "
    "should run the doctor: it names what is missing (docs/setup.md, “Without Docker”)."
)
_RUNSC_NO_PYTHON = (
    "The sandbox image has no python3, so nothing was run. An administrator should prepare it "
    "again (docs/setup.md, “Without Docker”)."
)
_RUNSC_REFUSED = (
    "gVisor could not start the sandbox. An administrator should look at the log and run the "
    "doctor (docs/setup.md)."
)
_PERMISSION_WORDS = (
    "operation not permitted",
    "permission denied",
    "read-only file system",
    "no space left on device",  # max_user_namespaces is used up, or 0
    "unable to run a rootless container",
)


def no_runsc(detail: str) -> EngineError:
    """There is no runsc, or it cannot be executed."""
    return RuntimeMissing(_NO_RUNSC, detail)


def error_from_runsc(said: str) -> EngineError:
    """The error for what runsc wrote to stderr before it ended with RUNSC_FAILED."""
    text = said.lower()
    if "executable file not found" in text or "error finding executable" in text:
        return StartFailed(_RUNSC_NO_PYTHON, said)
    if any(words in text for words in _PERMISSION_WORDS):
        return StartFailed(_RUNSC_NOT_ALLOWED, said)
    return StartFailed(_RUNSC_REFUSED, said)


# ===== end sandbox_core/engines/runsc_errors.py =====

# ===== begin sandbox_core/engines/runsc_state.py =====

"""The folders of embedded sandboxes: what Docker keeps in labels, and the processes.

``STATE/ID/`` holds ``lease.json`` (owner, run, expiry), the OCI bundle and runsc's own state.
A folder comes into being with its lease in it, so that no crash leaves one without.
"""

# A Unix socket's path may have 107 characters, and runsc puts one below the sandbox's folder.
_LONGEST_STATE_PATH = 60
_END_SECONDS = 5.0
_NO_FOLDER = (
    "The folder for running sandboxes cannot be used, so nothing was run. An administrator "
    "should run the doctor (docs/setup.md)."
)


def default_state_folder() -> Path:
    """Where sandboxes are kept when no setting says: gone after a restart of the machine."""
    if os.geteuid() == 0 and os.access("/run", os.W_OK):
        return Path("/run/run-code")
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if (
        runtime
        and len(runtime) < _LONGEST_STATE_PATH // 2
        and os.access(runtime, os.W_OK)
    ):
        return Path(runtime) / "run-code"
    return Path(tempfile.gettempdir()) / f"run-code-{os.geteuid()}"


class StateFolder:
    """All embedded sandboxes of one place, whoever owns them."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self, spec: SandboxSpec) -> Path:
        """A new sandbox's folder with its lease; its name is the sandbox's id. Raises
        StartFailed."""
        try:
            self._prepare()
            sandbox_id = secrets.token_hex(6)
            # Hidden until it is whole: leftovers() must not see a folder without a lease.
            draft = self._path / f".{sandbox_id}"
            draft.mkdir(mode=0o700)
            (draft / "root").mkdir()
            lease = {
                "owner": spec.owner,
                "run": spec.run_id,
                "expires": int(spec.expires_at),
            }
            (draft / "lease.json").write_text(json.dumps(lease))
            return draft.rename(self._path / sandbox_id)
        except OSError as error:
            raise StartFailed(_NO_FOLDER, repr(error)) from error

    def leases(self) -> list[Lease]:
        """One for each sandbox that is there."""
        found = (_lease_in(folder) for folder in self._path.glob("[0-9a-f]*"))
        return [lease for lease in found if lease is not None]

    def folder_of(self, sandbox_id: str) -> Path:
        """Where a sandbox is kept, if it is there."""
        return self._path / sandbox_id

    def _prepare(self) -> None:
        """Only we may look into it, and nobody else can have made it for us."""
        if len(str(self._path)) > _LONGEST_STATE_PATH:
            raise OSError(f"longer than {_LONGEST_STATE_PATH} characters: {self._path}")
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._path.lstat()
        private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
        if not private or status.st_uid != os.geteuid():
            raise OSError(f"not a folder of ours alone: {self._path}")


def end_processes(folder: Path) -> bool:
    """SIGKILL for each process of a sandbox, and wait until none is left. False when one
    stays. Whoever started them: each has the sandbox's own ``--root`` in its command line.
    """
    deadline = Deadline(_END_SECONDS)
    while pids := _processes_of(folder):
        if deadline.passed():
            return False
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)
    return True


def remove_folder(folder: Path) -> None:
    """Remove what was kept of a sandbox; gone already is fine."""
    shutil.rmtree(folder, ignore_errors=True)


def sandbox_pid(folder: Path) -> int:
    """The process that is the sandbox, as runsc's own state names it; 0 when not yet."""
    for path in (folder / "root").glob("*.state"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            return int(json.loads(path.read_text())["sandbox"]["pid"])
    return 0


def _processes_of(folder: Path) -> list[int]:
    mark = f"--root={folder}/root".encode()
    found = []
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):
            if mark in Path(entry.path, "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def _lease_in(folder: Path) -> Lease | None:
    try:
        values: Any = json.loads((folder / "lease.json").read_text())
        return Lease(
            folder.name,
            str(values["run"]),
            str(values["owner"]),
            float(values["expires"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


# ===== end sandbox_core/engines/runsc_state.py =====

# ===== begin sandbox_core/engines/runsc_walls.py =====

"""The limits around an embedded sandbox on the host's side: a control group where the host
lets us make one, else a watch of our own. Never none.

The guest's own watch, RLIMIT_NPROC and the sizes of the tmpfs folders are inside, and hold
in either case. These walls stand behind them, around gVisor itself.
"""

_PARENT = "run-code"
_WATCH_SECONDS = 0.03
_REMOVE_TRIES = 100
_SANDBOX_MEMORY = "/memfd:runsc-memory"


@dataclass(frozen=True, slots=True)
class HostLimits:
    """What a whole sandbox may use of the host: bytes, threads, and processors."""

    memory: int
    threads: int
    cpus: float


class Wall(Protocol):
    """What stands around one sandbox."""

    cgroup: str

    def watch(self, on_excess: Callable[[], None]) -> None:
        """Called when the sandbox's processes have been started."""

    def broken(self) -> bool:
        """Whether the sandbox ran out of memory."""

    def remove(self) -> None:
        """Called when its processes are gone."""


class ControlGroup:
    """The control group of one sandbox, as a Wall."""

    def __init__(self, path: str, folders: dict[str, Path], is_v2: bool) -> None:
        self.cgroup = path
        self._folders = folders
        self._is_v2 = is_v2
        self._broken = False

    def set_limits(self, limits: HostLimits, controllers: frozenset[str]) -> None:
        """Make it, with the limits that these controllers can set. Raises OSError."""
        quota = cpu_quota_us(limits.cpus)
        values: dict[str, dict[str, int | str]]
        if self._is_v2:
            values = {
                "memory": {"memory.max": limits.memory, "memory.swap.max": 0},
                "pids": {"pids.max": limits.threads},
                "cpu": {"cpu.max": f"{quota} {CPU_PERIOD_US}"},
            }
        else:
            values = {
                "memory": {
                    "memory.limit_in_bytes": limits.memory,
                    # Memory and swap together: no swap.
                    "memory.memsw.limit_in_bytes": limits.memory,
                },
                "pids": {"pids.max": limits.threads},
                "cpu": {
                    "cpu.cfs_period_us": CPU_PERIOD_US,
                    "cpu.cfs_quota_us": quota,
                },
            }
        for controller in sorted(controllers):
            folder = self._folder_of(controller)
            folder.mkdir(parents=True, exist_ok=True)
            for name, value in values[controller].items():
                if "sw" in name and not (folder / name).exists():
                    continue  # a kernel that does not count swap
                (folder / name).write_text(str(value))

    def watch(self, on_excess: Callable[[], None]) -> None:
        """See Wall.watch: the kernel does it."""

    def broken(self) -> bool:
        """See Wall.broken. The kernel counts the processes that it killed for it."""
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        with suppress(OSError, KeyError):
            for line in (self._folder_of("memory") / name).read_text().splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill" and count != "0":
                    self._broken = True
        return self._broken

    def remove(self) -> None:
        """See Wall.remove. A group whose last process has just ended may need a moment."""
        self.broken()
        for folder in self._folders.values():
            for _ in range(_REMOVE_TRIES):
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)
                else:
                    break

    def _folder_of(self, controller: str) -> Path:
        return self._folders["" if self._is_v2 else controller]


class ControlGroups:
    """Control groups as this host has them: v1 or v2, writable or not.

    ``root`` is where they are mounted. Kernel documentation: admin-guide/cgroup-v1/memory,
    admin-guide/cgroup-v2.
    """

    def __init__(self, root: Path = Path("/sys/fs/cgroup")) -> None:
        self._root = root
        self._is_v2 = (root / "cgroup.controllers").is_file()

    @property
    def version(self) -> str:
        """As people call it."""
        return "control group (v2)" if self._is_v2 else "control group (v1)"

    def controllers(self) -> frozenset[str]:
        """Those of memory, pids and cpu that we can set limits with."""
        wanted = ("memory", "pids", "cpu")
        if self._is_v2:
            with suppress(OSError):
                self._open_to_children(wanted)
                enabled = (self._root / _PARENT / "cgroup.subtree_control").read_text()
                return frozenset(wanted) & frozenset(enabled.split())
            return frozenset()
        return frozenset(
            name for name in wanted if os.access(self._root / name, os.W_OK)
        )

    def named(self, name: str) -> ControlGroup:
        """The control group of a sandbox, whether it is there or not."""
        return ControlGroup(f"/{_PARENT}/{name}", self._folders(name), self._is_v2)

    def _folders(self, name: str) -> dict[str, Path]:
        if self._is_v2:
            return {"": self._root / _PARENT / name}
        if not self._root.is_dir():
            return {}
        # runsc makes one for each controller, and leaves its own behind when it is killed.
        return {
            folder.name: folder / _PARENT / name
            for folder in self._root.iterdir()
            if (folder / "cgroup.procs").exists()
        }

    def _open_to_children(self, wanted: tuple[str, ...]) -> None:
        """Hand the controllers down: a group has those that its parents let through."""
        for folder in (self._root, self._root / _PARENT):
            folder.mkdir(exist_ok=True)
            there = set((folder / "cgroup.controllers").read_text().split())
            handed_down = folder / "cgroup.subtree_control"
            for name in there & set(wanted) - set(handed_down.read_text().split()):
                handed_down.write_text(f"+{name}")


class MemoryWatch:
    """A Wall where the host has no control group for us: a thread looks every 30 ms at what
    the sandbox holds, and ends it.

    Its memory is that of one anonymous file, whose blocks are counted whether mapped or not,
    and of gVisor's own process.
    """

    cgroup = ""

    def __init__(self, folder: Path, limits: HostLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._over = threading.Event()
        self._broken = False

    def watch(self, on_excess: Callable[[], None]) -> None:
        """See Wall.watch."""
        threading.Thread(
            target=self._work, args=(on_excess,), name="run-code-watch", daemon=True
        ).start()

    def broken(self) -> bool:
        """See Wall.broken."""
        return self._broken

    def remove(self) -> None:
        """See Wall.remove."""
        self._over.set()

    def _work(self, on_excess: Callable[[], None]) -> None:
        pid = 0
        files: list[str] = []
        while not self._over.wait(_WATCH_SECONDS):
            pid = pid or sandbox_pid(self._folder)
            if not pid:
                continue
            try:
                files = files or _memory_files(pid)
                memory, threads = _usage(pid, files)
            except OSError:  # it is gone
                return
            self._broken = memory > self._limits.memory
            if self._broken or threads > self._limits.threads:
                on_excess()
                return


def _memory_files(pid: int) -> list[str]:
    folder = f"/proc/{pid}/fd"
    paths = (f"{folder}/{name}" for name in os.listdir(folder))
    return [path for path in paths if os.readlink(path).startswith(_SANDBOX_MEMORY)]


def _usage(pid: int, files: list[str]) -> tuple[int, int]:
    """(bytes, threads) of a sandbox. Raises OSError when it is gone."""
    memory = sum(os.stat(path).st_blocks * 512 for path in files)
    threads = 0
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "RssAnon":
            memory += int(value.split()[0]) * 1024
        elif name == "Threads":
            threads = int(value)
    return memory, threads


@contextmanager
def some_processors(cpus: float) -> Iterator[None]:
    """What this thread starts meanwhile runs on so many processors only, whole ones: the
    limit that is left where no control group can be made."""
    allowed = os.sched_getaffinity(0)  # of this thread alone
    count = min(len(allowed), max(1, math.ceil(cpus)))
    os.sched_setaffinity(0, random.sample(sorted(allowed), count))
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


# ===== end sandbox_core/engines/runsc_walls.py =====

# ===== begin sandbox_core/engines/runsc_channel.py =====

"""The byte channel to one embedded sandbox: the pipes of a ``runsc run``.

stdin and stdout are the channel; what comes on stderr is kept, bounded, as diagnostics.
runsc's own child processes die with it (it asks the kernel for that), and it is killed by us;
if we are killed, the guest's stdin ends, and so does the guest.
"""

_PIPE_CHUNK = 1 << 18
_PIPE_SLICE_SECONDS = 0.5
_PIPE_PATIENCE = 1.5
_PIPE_DIAGNOSTICS = 4096


class RunscChannel:
    """A Channel over a started process. See Channel for who calls what."""

    def __init__(
        self, process: subprocess.Popen[bytes], folder: Path, wall: Wall
    ) -> None:
        self._process = process
        self._folder = folder
        self._wall = wall
        self._pipes = [
            pipe
            for pipe in (process.stdin, process.stdout, process.stderr)
            if pipe is not None
        ]
        self._stdin, self._stdout, self._stderr = (
            pipe.fileno() for pipe in self._pipes
        )
        for number in (self._stdin, self._stdout, self._stderr):
            os.set_blocking(number, False)
            with suppress(OSError):  # the user's share of pipe memory may be used up
                fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, _PIPE_CHUNK)
        self._untrusted_diagnostics = bytearray()
        self._heard = False
        self._over = False
        self._killed = threading.Event()
        self._lock = threading.Lock()
        self._report: KillReport | None = None
        self._closed = False
        wall.watch(self._on_excess)

    def send(self, data: bytes, deadline: Deadline) -> None:
        """See Channel.send."""
        view = memoryview(data)
        while view:
            if self._killed.is_set():
                raise ChannelClosed("The sandbox was stopped.")
            if deadline.passed():
                raise StartFailed(
                    "The sandbox did not take its files in time. Try again."
                )
            poll = select.poll()
            poll.register(self._stdin, select.POLLOUT)
            slice_seconds = min(_PIPE_SLICE_SECONDS, deadline.remaining())
            if not poll.poll(slice_seconds * 1000):
                continue
            try:
                view = view[os.write(self._stdin, view) :]
            except BlockingIOError:
                continue
            except OSError as error:
                self._raise_if_never_started()
                raise ChannelClosed(
                    "The sandbox ended unexpectedly.", repr(error)
                ) from error

    def recv(self, timeout: float) -> bytes | None:
        """See Channel.recv. Raises EngineError when no sandbox came up at all."""
        end = Deadline(timeout)
        while not self._killed.is_set():
            ready = self._wait_for_output(min(_PIPE_SLICE_SECONDS, end.remaining()))
            if self._stderr in ready:
                self._read_diagnostics()
            if self._stdout in ready:
                try:
                    data = os.read(self._stdout, _PIPE_CHUNK)
                except BlockingIOError:
                    continue
                self._heard = self._heard or bool(data)
                if not data:
                    self._over = not self._killed.is_set()
                    self._raise_if_never_started()
                return data
            if end.passed():
                return None
        return b""

    def _wait_for_output(self, seconds: float) -> set[int]:
        poll = select.poll()
        for pipe in (self._stdout, self._stderr):
            poll.register(pipe, select.POLLIN)
        return {pipe for pipe, _ in poll.poll(seconds * 1000)}

    def _read_diagnostics(self) -> bool:
        """Take what there is of stderr; keep the first of it. False at its end."""
        if self._closed:
            return False
        try:
            data = os.read(self._stderr, _PIPE_CHUNK)
        except BlockingIOError:
            return False
        room = _PIPE_DIAGNOSTICS - len(self._untrusted_diagnostics)
        self._untrusted_diagnostics += data[:room]
        return bool(data)

    def _raise_if_never_started(self) -> None:
        """runsc's own failure is told by its exit code, and before the guest said a word."""
        if self._heard or self._killed.is_set():
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PIPE_PATIENCE)
        if self._process.returncode == RUNSC_FAILED:
            raise error_from_runsc(self._diagnostics())

    def _diagnostics(self) -> str:
        while self._read_diagnostics():
            pass
        return self._untrusted_diagnostics.decode("utf-8", "replace")

    def close_send(self) -> None:
        """See Channel.close_send."""
        with suppress(OSError):  # it may be closed already
            self._pipes[0].close()

    def kill(self) -> KillReport:
        """See Channel.kill."""
        self._killed.set()
        with self._lock:
            if self._report is None or self._report.may_linger:
                self._report = self._end()
            return self._report

    def _on_excess(self) -> None:
        """The watch found too much. Whoever reads sees the end of the stream."""
        self._over = True
        self._process.kill()

    def _end(self) -> KillReport:
        if self._over:  # the guest ended: let runsc tell its exit code
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_PIPE_PATIENCE)
        self._process.kill()
        gone = end_processes(self._folder)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_PIPE_PATIENCE)
        if not gone or self._process.returncode is None:
            return KillReport(may_linger=True, detail=f"processes of {self._folder}")
        self._wall.remove()
        remove_folder(self._folder)
        return KillReport()

    def ended(self, deadline: Deadline) -> Ended:
        """See Channel.ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(deadline.remaining())
        code = self._process.returncode
        if code is None:
            return Ended(None, None, self._diagnostics(), may_linger=True)
        lingers = self._report is not None and self._report.may_linger
        exit_code = 128 - code if code < 0 else code
        return Ended(exit_code, self._wall.broken(), self._diagnostics(), lingers)

    def close(self) -> None:
        """See Channel.close."""
        self.kill()
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for pipe in self._pipes:
                with suppress(OSError):
                    pipe.close()


# ===== end sandbox_core/engines/runsc_channel.py =====

# ===== begin sandbox_core/engines/runsc_program.py =====

"""gVisor's program on this machine: where it is, and what it may do here."""

# Older releases lack --overlay2 and answer EINVAL on a full tmpfs.
OLDEST_RUNSC = 20230801

# runsc's own releases print release-20240729.0, Debian's packages 0.0~20240729.0.
_RELEASE = re.compile(r"(?:release-|0\.0~)(\d{8})")
# capabilities(7): SETGID, SETUID, SYS_CHROOT, SYS_PTRACE and SYS_ADMIN.
_NEEDED_CAPABILITIES = sum(1 << number for number in (6, 7, 18, 19, 21))


def find_runsc(setting: str = "") -> str:
    """Path of the program: the setting, else the one in PATH. Raises RuntimeMissing when it
    is not there or cannot be executed."""
    if setting:
        if os.access(setting, os.X_OK) and os.path.isfile(setting):
            return setting
        raise no_runsc(f"no program at the setting's place: {setting}")
    # A server's PATH may lack the administrator's folders.
    path = os.pathsep.join(
        (os.environ.get("PATH", os.defpath), "/usr/local/bin", "/usr/sbin")
    )
    found = shutil.which("runsc", path=path)
    if found is None:
        raise no_runsc(f"no runsc in {path}")
    return found


def release_of(runsc: str, deadline: Deadline) -> int:
    """The date of its release, as in 20240729; 0 when it does not say. Raises
    RuntimeMissing when it cannot be executed."""
    try:
        done = subprocess.run(
            [runsc, "--version"],
            capture_output=True,
            text=True,
            timeout=max(0.1, deadline.remaining()),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise no_runsc(repr(error)) from error
    found = _RELEASE.search(done.stdout)
    return int(found[1]) if found else 0


def is_privileged() -> bool:
    """Whether we may make namespaces and mounts as we are. If not, runsc has to start with a
    user namespace of its own (--rootless)."""
    try:
        status = Path("/proc/self/status").read_text()
    except OSError:
        return False
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    effective = int(found[1], 16) if found else 0
    return effective & _NEEDED_CAPABILITIES == _NEEDED_CAPABILITIES


# ===== end sandbox_core/engines/runsc_program.py =====

# ===== begin sandbox_core/engines/runsc.py =====

"""The embedded engine: gVisor's program on an OCI bundle, without any daemon.

One ``runsc run`` is one hardened, single-use sandbox. What Docker does for the other engine
is done here in four small modules: folders with leases (runsc_state), limits on the host's
side (runsc_walls), the root file system (runsc_images), and the pipes (runsc_channel).
"""

_PLATFORMS = ("systrap", "ptrace", "kvm")


class RunscEngine:
    """Sandboxes from a runsc on this machine.

    ``runsc`` is its path, ``images_folder`` where prepared images are, ``state_folder`` where
    running sandboxes are kept; empty means the usual places. ``image`` is the one that
    check() looks for. Raises InvalidRequest for an unknown platform.
    """

    name = "runsc"
    is_here = True

    def __init__(
        self,
        image: str = "run-code-python:latest",
        runsc: str = "",
        images_folder: str = "",
        state_folder: str = "",
        platform: str = _PLATFORMS[0],
        control_groups: ControlGroups | None = None,
    ) -> None:
        if platform not in _PLATFORMS:
            known = ", ".join(_PLATFORMS)
            raise InvalidRequest(
                f"gVisor has no platform “{platform}”: choose one of {known}."
            )
        self._image = image
        self._runsc = runsc
        self._images = ImageStore(images_folder)
        self._state = StateFolder(
            Path(state_folder) if state_folder else default_state_folder()
        )
        self._platform = platform
        self._groups = control_groups or ControlGroups()
        self._privileged = is_privileged()
        self._controllers = (
            self._groups.controllers() if self._privileged else frozenset()
        )

    def start(
        self, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
    ) -> RunscChannel:
        """See Engine.start."""
        runsc = find_runsc(self._runsc)
        image = self._images.open(spec.image)
        if cancel.is_set():
            raise ChannelClosed("The run was stopped on request.")
        folder = self._state.make(spec)
        with ExitStack() as undo:
            undo.callback(remove_folder, folder)
            wall = self._wall(folder, spec)
            undo.callback(wall.remove)
            config = bundle_config(
                str(image.root),
                spec.argv,
                image.env,
                spec.limits,
                wall.cgroup,
                spec.data_folders,
                spec.packages_mib,
            )
            try:
                (folder / "config.json").write_text(json.dumps(config))
                process = self._launch(runsc, folder, wall, spec.limits.cpus)
            except OSError as error:
                raise no_runsc(repr(error)) from error
            undo.pop_all()
        channel = RunscChannel(process, folder, wall)
        if cancel.is_set():
            channel.close()
            raise ChannelClosed("The run was stopped on request.")
        return channel

    def _wall(self, folder: Path, spec: SandboxSpec) -> Wall:
        limits = HostLimits(
            container_memory_bytes(spec.limits, bool(spec.waiting), spec.packages_mib),
            host_threads(spec.limits),
            container_cpus(spec.limits),
        )
        if "memory" not in self._controllers:
            return MemoryWatch(folder, limits)
        group = self._groups.named(folder.name)
        try:
            group.set_limits(limits, self._controllers)
            return group
        except OSError as error:
            group.remove()
            raise StartFailed(
                "The limits of the sandbox could not be set, so nothing was run. An "
                "administrator should run the doctor (docs/setup.md).",
                repr(error),
            ) from error

    def _launch(
        self, runsc: str, folder: Path, wall: Wall, cpus: float
    ) -> subprocess.Popen[bytes]:
        flags = runsc_flags(self._platform, not self._privileged, bool(wall.cgroup))
        command = [runsc, f"--root={folder}/root", *flags]
        command += ["run", f"--bundle={folder}", folder.name]
        with ExitStack() as around:
            if "cpu" not in self._controllers:
                around.enter_context(some_processors(cpus))
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # A signal for our terminal's programs is none for the sandbox.
                start_new_session=True,
                # Nothing of the server's environment, which may hold secrets.
                env={},
                cwd="/",
            )

    def open_route(
        self,
        way: EgressSettings,
        mode: str,
        run_id: str,
        owner: str,
        expires_at: float,
        deadline: Deadline,
    ) -> Route:
        """See Engine.open_route: there is none here."""
        raise EngineError(NO_ROUTES)

    def close_route(self, route: Route) -> None:
        """See Engine.close_route: nothing can be there."""

    def leftovers(self) -> list[Lease]:
        """See Engine.leftovers."""
        return self._state.leases()

    def remove(self, lease: Lease) -> None:
        """See Engine.remove. Raises EngineError when it may still be there."""
        folder = self._state.folder_of(lease.sandbox_id)
        if not end_processes(folder):
            raise EngineError("A left-over sandbox could not be removed.", str(folder))
        self._groups.named(folder.name).remove()
        remove_folder(folder)

    def image_id(self, deadline: Deadline) -> str:
        """See Engine.image_id: here the folder's name and the time of its making."""
        return self._images.identity(self._image)

    def check(self, deadline: Deadline) -> list[Finding]:
        """See Engine.check."""
        machine = read_machine()
        findings = machine_obstacles(machine, rootless=not self._privileged)
        mend = runsc_install_command(machine)
        try:
            runsc = find_runsc(self._runsc)
            release = release_of(runsc, deadline)
        except EngineError as error:
            return [*findings, Finding("engine", False, str(error), mend)]
        if release < OLDEST_RUNSC:
            text = f"{runsc} is too old or no runsc: its release is {release or 'unknown'}."
            return [*findings, Finding("engine", False, text, mend)]
        findings.append(Finding("engine", True, f"{runsc} has release {release}."))
        findings.append(self._images.check(self._image))
        findings.append(Finding("limits", True, self.limits_in_force()))
        return findings

    def limits_in_force(self) -> str:
        """In words, what holds memory, threads and processors of a sandbox on this host."""
        group = self._groups.version
        watch = "a watch of ours, every 30 ms"
        by = {
            "memory": group if "memory" in self._controllers else watch,
            "threads": group if "pids" in self._controllers else watch,
            "processors": (
                group if "cpu" in self._controllers else "whole processors only"
            ),
        }
        told = ", ".join(f"{name}: {what}" for name, what in by.items())
        return f"Around the sandbox stand, {told}; inside, the guest's own limits."


# ===== end sandbox_core/engines/runsc.py =====

# ===== begin sandbox_core/engines/choice.py =====

"""Which engine starts the sandboxes: the one place that knows them by name."""

_CONTAINER_ENGINES = {engine.name: engine for engine in (DockerEngine, PodmanEngine)}
ENGINE_NAMES = (*_CONTAINER_ENGINES, RunscEngine.name)
_DOCKER_SOCKET = "/var/run/docker.sock"


def make_engine(
    name: str,
    address: str = "",
    image: str = "run-code-python:latest",
    runtime: str = "runsc",
    pull_missing_image: bool = False,
    runsc: str = "",
    images_folder: str = "",
) -> Engine:
    """The engine of this name. ``address`` is as in DOCKER_HOST; "" is the engine's usual
    one. ``runsc`` and ``images_folder`` are for the embedded engine, whose platform is what
    follows the first hyphen of ``runtime``. Raises InvalidRequest for a name that is none of
    ENGINE_NAMES, or a platform that gVisor has not."""
    if name == RunscEngine.name:
        platform = runtime.partition("-")[2]
        return RunscEngine(image, runsc, images_folder, platform=platform or "systrap")
    if name not in _CONTAINER_ENGINES:
        known = ", ".join(ENGINE_NAMES)
        raise InvalidRequest(f"There is no engine “{name}”: choose {known}.")
    return _CONTAINER_ENGINES[name](address, image, runtime, pull_missing_image)


def usual_engine_name(
    address: str = "",
    runsc: str = "",
    environ: Mapping[str, str] = os.environ,
    docker_socket: str = _DOCKER_SOCKET,
) -> str:
    """What “auto” means: Docker where an address is given or its socket is there; else the
    embedded engine where gVisor's program is; else Docker, whose errors say what to do.
    """
    if address or environ.get("DOCKER_HOST") or Path(docker_socket).exists():
        return DockerEngine.name
    try:
        find_runsc(runsc)
    except EngineError:
        return DockerEngine.name
    return RunscEngine.name


# ===== end sandbox_core/engines/choice.py =====

# ===== begin sandbox_core/requirements.py =====

"""Which packages a run asks for: named by its caller, or found before its code.

Found are ``pip install`` lines at the beginning of a program (in Python with a ``!`` or ``%``, as
in notebooks), and a script's own metadata (PyPA specification "Inline script metadata").
"""

_MOST_REQUIREMENTS = 20
_LONGEST_REQUIREMENT = 200
_REQUIREMENT = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"\s*(\[[A-Za-z0-9._,\s-]*\])?"
    r"\s*((?:(?:===|~=|==|!=|<=|>=|<|>)\s*[A-Za-z0-9.*+!_-]+\s*,?\s*)*)"
)
_PIP_LINE = re.compile(
    r"[ \t]*(?P<sign>[!%]?)[ \t]*(?:python[\d.]*[ \t]+-m[ \t]+)?(?:uv[ \t]+)?pip[\d.]*"
    r"[ \t]+install[ \t]+(?P<words>(?:[^;&|<>$`\\'\"]|'[^'$`]*'|\"[^\"$`]*\")+)"
)
# What people add to the command and what changes nothing here.
_HARMLESS_OPTIONS = {
    "-q",
    "-qq",
    "--quiet",
    "-U",
    "--upgrade",
    "--user",
    "--system",
    "--no-cache-dir",
    "--break-system-packages",
    "--disable-pip-version-check",
}
_METADATA = re.compile(
    r"^# /// script[ \t]*\n(?P<content>(?:^#(?:| [^\n]*)\n)+?)^# ///[ \t]*$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A package by its name in normal form, and as pip is asked for it."""

    name: str
    text: str

    @property
    def is_plain(self) -> bool:
        """Whether any version will do."""
        return self.text == self.name


def normal_name(name: str) -> str:
    """The name as the index compares it (PyPA specification "Names and normalization")."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def package_names(text: str) -> frozenset[str]:
    """Names in a setting, with commas or blanks between them, in normal form."""
    return frozenset(normal_name(name) for name in re.split(r"[\s,]+", text) if name)


def read_requirement(text: str) -> Requirement:
    """A package from what a caller or a program wrote. Raises InvalidRequest for anything but a
    name with a version, such as an address, a path or an option."""
    found = _REQUIREMENT.fullmatch(text.strip()[:_LONGEST_REQUIREMENT])
    if not found:
        raise InvalidRequest(
            f"“{text.strip()[:60]}” cannot be installed: name packages of the index, such as "
            "cowsay or cowsay==6.1."
        )
    name = normal_name(found[1])
    rest = re.sub(r"\s+", "", (found[2] or "") + found[3]).rstrip(",")
    return Requirement(name, name + rest)


def gather_packages(request: RunRequest) -> RunRequest:
    """The request with all packages that it asks for in ``packages``, in normal form, and the
    lines that asked for them empty. Raises InvalidRequest."""
    wanted = list(request.packages)
    steps = []
    for step in request.steps:
        names, code = _take_pip_lines(step)
        wanted += [*names, *_metadata_packages(step)]
        steps.append(replace(step, code=code))
    requirements = dict.fromkeys(read_requirement(text).text for text in wanted)
    if len(requirements) > _MOST_REQUIREMENTS:
        raise InvalidRequest(
            f"A run may install {_MOST_REQUIREMENTS} packages at most, not {len(requirements)}."
        )
    return replace(request, steps=tuple(steps), packages=tuple(requirements))


def asks_for_packages(step: Step) -> bool:
    """Whether a step does nothing but install packages of Python's index."""
    names, code = _take_pip_lines(step)
    lines = (line.strip() for line in code.split("\n"))
    return bool(names) and not any(line and not line.startswith("#") for line in lines)


def _take_pip_lines(step: Step) -> tuple[list[str], str]:
    """The packages of the lines before the program, and the code without those lines."""
    language = language_named(step.language)
    if language not in (PYTHON, BASH):
        return [], step.code
    lines = step.code.split("\n")
    names: list[str] = []
    for number, line in enumerate(lines):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _packages_of_line(line, needs_sign=language is PYTHON)
        if found is None:
            break
        names += found
        lines[number] = ""  # the other lines keep their numbers
    return names, "\n".join(lines)


def _packages_of_line(line: str, needs_sign: bool) -> list[str] | None:
    """None for a line that does something else, or more."""
    found = _PIP_LINE.fullmatch(line.rstrip())
    if not found or (needs_sign and not found["sign"]):
        return None
    words = shlex.split(found["words"], comments=True)
    names = [word for word in words if word not in _HARMLESS_OPTIONS]
    if not names or any(name.startswith("-") for name in names):
        return None
    return names


def _metadata_packages(step: Step) -> list[str]:
    if language_named(step.language) is not PYTHON:
        return []
    found = _METADATA.search(step.code + "\n")
    if not found:
        return []
    text = "\n".join(line[2:] for line in found["content"].splitlines())
    try:
        listed = tomllib.loads(text).get("dependencies", [])
    except tomllib.TOMLDecodeError:
        return []
    return [str(entry) for entry in listed] if isinstance(listed, list) else []


# ===== end sandbox_core/requirements.py =====

# ===== begin sandbox_core/installer.py =====

"""Installs Python packages for a run: in a sandbox of its own, which has the index and nothing
else on its network. What comes out goes as one archive into the sandbox of the program, which
has no network at all.

Only wheels are taken, so that nothing of a package runs while there is a network.
"""

PACKAGES_OFF = (
    "Packages are off here, so nothing was run: none can be installed. Use those that are "
    "there, and leave the packages out."
)
_ARCHIVE = "packages.tar"
_FRESH_SECONDS = 3600.0
_KEPT_BYTES = 512 * MIB
_INDEX_SECONDS = 8
_INDEX_AWAY = 69  # EX_UNAVAILABLE
_INSTALL_PROGRAM = """\
import json, os, runpy, site, sys

wanted, index, host, first = {wanted!r}, {index!r}, {host!r}, {first!r}


def pip(*arguments):
    \"\"\"Its exit status. In this process: another Python takes a tenth of a second.\"\"\"
    sys.argv = ["pip", *arguments]
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        runpy.run_module("pip", run_name="__main__")
    except SystemExit as end:
        return end.code
    finally:
        os.dup2(output, 1)
    return 0


def answers():
    import urllib.error, urllib.request
    page = urllib.request.Request(index + first + "/", headers={{"Accept": "text/html"}})
    try:
        urllib.request.urlopen(page, timeout={connect}).close()
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False
    return True


os.environ["PYTHONUSERBASE"] = site.USER_BASE = "/tmp/packages"
site.USER_SITE = None
status = pip("install", "--user", "--only-binary=:all:", "--no-cache-dir", "--no-compile",
             "--no-input", "--no-warn-script-location", "--disable-pip-version-check",
             "--no-warn-conflicts",  # which would read what all packages of the image need
             "--progress-bar=off", "--retries=0", "--timeout={connect}", "--index-url", index,
             "--trusted-host", host, *wanted)
if status:
    sys.exit(status if answers() else {away})
from importlib.metadata import distributions
found = {{}}
for folder, _, names in os.walk("/tmp/packages"):
    for name in names:
        if name == "METADATA" and folder.endswith(".dist-info"):
            for entry in distributions(path=[os.path.dirname(folder)]):
                found[entry.metadata["Name"]] = entry.version
if found:
    import tarfile
    with tarfile.open("{archive}", "w") as archive:
        archive.add("/tmp/packages", ".")
print(json.dumps(found))
"""
_PRESENT = """\
import importlib.metadata, json
print(json.dumps([e.metadata["Name"] for e in importlib.metadata.distributions()]))
"""


class InstallFailed(SandboxError):
    """The packages could not be installed; the message says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class InstallSettings:
    """Where packages come from and what they may cost. ``index`` is the address of the index as
    the sandbox sees it, ``network`` the engine's name of the internal network that it is on,
    ``runtime`` a gVisor with a network stack of its own. ``size_mib`` is for the installed files.
    ``allowed`` names what may be asked for (empty: anything), ``denied`` what never comes in.
    """

    index: str
    network: str
    runtime: str
    size_mib: int = 256
    seconds: float = 60.0
    allowed: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Archive:
    """What was installed, as a tar file, and its names with versions; without a content when
    all was there already."""

    content: IO[bytes] | None
    size: int
    names: tuple[str, ...]

    def opened(self) -> IO[bytes] | None:
        """The tar file, with a position of its own for each reader."""
        if self.content is None:
            return None
        return open(f"/proc/self/fd/{self.content.fileno()}", "rb")


@dataclass(frozen=True, slots=True)
class Missing:
    """Packages that an image, named by its digest, does not have."""

    image: str
    requirements: tuple[Requirement, ...]

    @property
    def texts(self) -> list[str]:
        """The requirements as pip takes them."""
        return sorted(entry.text for entry in self.requirements)

    @property
    def key(self) -> tuple[str, ...]:
        """The same for whatever has the same installation."""
        return (self.image, *self.texts)


class Installer:
    """Installs, and remembers for an hour what it installed. ``run`` runs a request in a sandbox
    on the network (True) or without one. Any thread may call it."""

    def __init__(
        self,
        settings: InstallSettings,
        run: Callable[[RunRequest, bool, CancelToken], RunResult],
        image_id: Callable[[], str],
    ) -> None:
        self._settings = settings
        self._run = run
        self._image_id = image_id
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, ...], tuple[float, Archive]] = OrderedDict()
        self._present: dict[str, frozenset[str]] = {}

    @property
    def limits(self) -> Limits:
        """What an installation may use."""
        size_mib = self._settings.size_mib
        return Limits(
            seconds=self._settings.seconds,
            work_mib=size_mib,
            # pip unpacks beside the place where the files end.
            tmp_mib=3 * size_mib,
            files=1,
            file_mib=size_mib,
        )

    def missing(self, packages: Sequence[str], cancel: CancelToken) -> Missing:
        """What of these packages the image does not have. Raises InvalidRequest."""
        wanted = [read_requirement(text) for text in packages]
        self._check_names(wanted)
        image = self._image_id()
        return Missing(
            image,
            tuple(
                entry
                for entry in wanted
                if not (entry.is_plain and entry.name in self._in_image(image, cancel))
            ),
        )

    def kept(self, missing: Missing) -> Archive | None:
        """These packages and all that they need, if that is here already."""
        if not missing.requirements:
            return Archive(None, 0, ())
        with self._lock:
            since, archive = self._kept.get(missing.key, (0.0, None))
            if archive is None or time.monotonic() - since > _FRESH_SECONDS:
                return None
            self._kept.move_to_end(missing.key)
            return archive

    def fetch(self, missing: Missing, cancel: CancelToken) -> Archive:
        """Install these packages and all that they need. Raises InstallFailed, InvalidRequest."""
        archive = self._fetch(missing, cancel)
        self._keep(missing.key, archive)
        return archive

    def close(self) -> None:
        """Forget what was installed."""
        with self._lock:
            for _, archive in self._kept.values():
                if archive.content is not None:
                    archive.content.close()
            self._kept.clear()

    def _check_names(self, wanted: Sequence[Requirement]) -> None:
        allowed, denied = self._settings.allowed, self._settings.denied
        for entry in wanted:
            if entry.name in denied or (allowed and entry.name not in allowed):
                raise InvalidRequest(
                    f"The package {entry.name} may not be installed here. Do without, or ask "
                    "your administrator to allow it."
                )

    def _in_image(self, image: str, cancel: CancelToken) -> frozenset[str]:
        """Names of the packages that the image has."""
        if image not in self._present:
            step = Step(PYTHON.name, _PRESENT)
            result = self._run(RunRequest((step,)), False, cancel)
            try:
                names = json.loads(str(result.stdout))
                found = frozenset(normal_name(str(name)) for name in names)
            except (ValueError, TypeError):
                return frozenset()
            self._present = {image: found}
        return self._present[image]

    def _fetch(self, missing: Missing, cancel: CancelToken) -> Archive:
        settings, texts = self._settings, missing.texts
        program = _INSTALL_PROGRAM.format(
            wanted=texts,
            index=settings.index,
            host=re.sub(r"^\w+://|[:/].*$", "", settings.index),
            first=missing.requirements[0].name,
            connect=_INDEX_SECONDS,
            away=_INDEX_AWAY,
            archive=_ARCHIVE,
        )
        request = RunRequest((Step(PYTHON.name, program),), limits=self.limits)
        result = self._run(request, True, cancel)
        if result.outcome is not Outcome.OK:
            raise InstallFailed(_why(result, texts, settings))
        versions = _told_versions(str(result.stdout))
        for name in versions:
            if normal_name(name) in settings.denied:
                raise InvalidRequest(
                    f"These packages need {name}, which may not be installed here. Do without."
                )
        names = tuple(f"{name} {version}" for name, version in versions.items())
        for file in result.files:
            return Archive(file.content, file.size, names)
        if versions:
            raise InstallFailed(_too_large(settings))
        return Archive(None, 0, ())

    def _keep(self, key: tuple[str, ...], archive: Archive) -> None:
        """Those used last, as many as there is room for. A file that is still read stays until
        its reader has closed it."""
        with self._lock:
            self._kept[key] = (time.monotonic(), archive)
            while sum(kept.size for _, kept in self._kept.values()) > _KEPT_BYTES:
                self._kept.popitem(last=False)


def _told_versions(untrusted_text: str) -> dict[str, str]:
    try:
        untrusted = json.loads(untrusted_text)
        return {
            clean_text(str(name)[:60]): clean_text(str(version)[:30])
            for name, version in list(untrusted.items())[:100]
        }
    except (ValueError, AttributeError):
        return {}


def _too_large(settings: InstallSettings) -> str:
    return (
        f"The packages need more than the {settings.size_mib} MB that there are for them. "
        "Install fewer, or do without."
    )


def _why(result: RunResult, texts: Sequence[str], settings: InstallSettings) -> str:
    """One sentence on why pip failed. What it printed came from the index, and is not shown."""
    named = ", ".join(texts)
    said = str(result.stderr)
    if result.outcome is Outcome.CANCELLED:
        return result.message
    if result.outcome is Outcome.TIMEOUT:
        return (
            f"Installing {named} took longer than {settings.seconds:g} s. Try again, or do "
            "without."
        )
    if result.outcome is Outcome.DISK_LIMIT or "No space left on device" in said:
        return _too_large(settings)
    if result.outcome is not Outcome.FAILED:
        return f"{named} could not be installed. {result.message}"
    if result.exit_code == _INDEX_AWAY:
        return (
            f"{named} could not be installed: the package index does not answer. Try again "
            "later, or do without; tell your administrator if it stays."
        )
    missing = re.search(r"No matching distribution found for ([\w.\[\]=<>!~+-]+)", said)
    if missing:
        return (
            f"The package index has nothing for {missing[1][:60]} that can be installed here: "
            "check name and version. Only ready-made packages (wheels) for this Python are "
            "taken."
        )
    if "ResolutionImpossible" in said or "conflicting dependencies" in said:
        return f"{named} cannot be installed together: they need different versions of others."
    return f"{named} could not be installed. Check the names, or do without."


# ===== end sandbox_core/installer.py =====

# ===== begin sandbox_core/spool.py =====

"""The whole output of a run, on disk: what the head and the tail in memory leave out."""

_IN_MEMORY = 1 << 16
_SPOOLED_NAME = "full-output.txt"


def spooled_file() -> IO[bytes]:
    """An unlinked temporary file that stays in memory while it has at most 64 KiB."""
    return tempfile.SpooledTemporaryFile(_IN_MEMORY)


class OutputSpool:
    """Takes cleaned text as it comes and keeps it in an unlinked temporary file.

    At most ``cap_bytes`` of UTF-8; the rest is dropped, and the file says so at its end. A
    host without room for it loses the file and nothing else.
    """

    def __init__(self, cap_bytes: int) -> None:
        self._left = cap_bytes
        self._size = 0
        self._cut = False
        self._content: IO[bytes] | None = spooled_file()

    def add(self, text: str) -> None:
        """Append a text, as far as there is room. Called for each piece of output."""
        data = text.encode("utf-8", "replace")
        if len(data) > self._left:
            data = data[: self._left].decode("utf-8", "ignore").encode()
            self._left = len(data)
            self._cut = True
        self._left -= len(data)
        self._write(data)

    def finish(self) -> OutputFile | None:
        """The file, positioned at its start; None when it is empty or could not be kept."""
        if self._cut:
            self._write("\n[… the rest was not kept …]\n".encode())
        content = self._content
        if content is None or not self._size:
            return None
        try:
            content.seek(0)
        except OSError:
            return None
        return OutputFile(_SPOOLED_NAME, self._size, content)

    def _write(self, data: bytes) -> None:
        if self._content is None:
            return
        try:
            self._content.write(data)
            self._size += len(data)
        except OSError:
            self._content.close()
            self._content = None


# ===== end sandbox_core/spool.py =====

# ===== begin sandbox_core/archive.py =====

"""Files on the host's side: what goes into a sandbox, and what comes out, both bounded.

Names from a request are checked before anything starts; names and sizes from a sandbox are
untrusted, and file contents go to unlinked temporary files, never whole into memory.
"""

_LONGEST_PART = 255
_NO_ROOM = "there was no room for it on the server"
_DEEPEST = 20
_PAGE = 4096
_LARGEST_STDIN_MIB = 16
_LONGEST_NAME = 4096


@dataclass(frozen=True, slots=True)
class InputPlan:
    """All files of a request, its programs last, and the name of each step's program."""

    files: tuple[InputFile, ...]
    step_names: tuple[str, ...]


def plan_files(request: RunRequest) -> InputPlan:
    """Check the names and sizes of a request's files, and name its programs.

    Raises InvalidRequest for an unsafe or repeated name, an unknown language, more than the
    work folder holds, or more than 16 MiB of stdin.
    """
    taken: set[str] = set()
    for file in request.files:
        _check_input_name(file.name)
        if file.name in taken:
            raise InvalidRequest(f"There are two files with the name “{file.name}”.")
        taken.add(file.name)
    _check_folders(taken)
    programs = []
    for step in request.steps:
        name = free_name(language_named(step.language).file_for(step.code), taken)
        taken.add(name)
        programs.append(InputFile(name, step.code.encode("utf-8", "surrogatepass")))
    files = (*request.files, *programs)
    _check_sizes(files, request)
    return InputPlan(files, tuple(program.name for program in programs))


def _check_sizes(files: tuple[InputFile, ...], request: RunRequest) -> None:
    # The folder gives out whole pages.
    needed = sum(-(-file.size // _PAGE) * _PAGE for file in files)
    if needed > request.limits.work_mib * MIB:
        raise InvalidRequest(
            f"The files for this run need {needed / MIB:.1f} MB, but the work folder holds "
            f"{request.limits.work_mib} MB. Leave some out."
        )
    if len(request.stdin) > _LARGEST_STDIN_MIB * MIB:
        raise InvalidRequest(
            f"The input of a program (stdin) may have {_LARGEST_STDIN_MIB} MB at most. Give "
            "it a file instead."
        )


def is_input_name(name: str) -> bool:
    """Whether a file can have this name in the work folder: relative, no tricks, not deep."""
    parts = name.split("/")
    return not (
        not name
        or "\0" in name
        or len(parts) > _DEEPEST
        or any(part in ("", ".", "..") for part in parts)
        or any(
            len(part.encode("utf-8", "surrogatepass")) > _LONGEST_PART for part in parts
        )
        or any(0xD800 <= ord(character) <= 0xDFFF for character in name)
    )


def _check_input_name(name: str) -> None:
    if not is_input_name(name):
        raise InvalidRequest(
            f"“{name[:80]}” cannot be the name of a file in the work folder."
        )


def _check_folders(names: set[str]) -> None:
    for name in names:
        for parent in PurePosixPath(name).parents:
            if str(parent) in names:
                raise InvalidRequest(f"“{parent}” cannot be both a file and a folder.")


def free_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, or the first of name_2, name_3, … that no file or folder has."""
    first_parts = {name.partition("/")[0] for name in taken}
    stem, dot, suffix = wanted.partition(".")
    candidate, number = wanted, 1
    while candidate in taken or candidate in first_parts:
        number += 1
        candidate = f"{stem}_{number}{dot}{suffix}"
    return candidate


def safe_output_name(untrusted_name: str) -> str:
    """A relative name whose parts are no path tricks; it may still need escaping to show."""
    name = untrusted_name[:_LONGEST_NAME].encode("utf-8", "replace").decode()
    parts = [part for part in name.split("/") if part not in ("", ".", "..")]
    return "/".join(parts).replace("\0", "�") or "unnamed"


class FileReceiver:
    """Takes the files that a guest sends and keeps each in an unlinked temporary file.

    The guest was told the bounds; whoever passes them is not our guest: ProtocolError. A file
    for which this host has no room is lost, and the run goes on.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files: list[OutputFile] = []
        self._current: OutputFile | None = None
        self._current_is_lost = False
        self._total = 0
        self._lost: list[SkippedFile] = []
        self._names: set[str] = set()

    @property
    def is_open(self) -> bool:
        """Whether a file has begun and not ended."""
        return self._current is not None

    def begin(self, untrusted_name: str) -> None:
        """A file starts. Raises ProtocolError when there are too many, or one is open."""
        count = len(self._files) + len(self._lost)
        if self._current is not None or count >= self._limits.files:
            raise ProtocolError(
                "The sandbox sent a broken message.", "file out of turn"
            )
        name = safe_output_name(untrusted_name)
        if name in self._names:  # two that were not valid UTF-8 have become the same
            name = free_name(name, self._names)
        self._names.add(name)
        self._current = OutputFile(name, 0, spooled_file())
        self._current_is_lost = False

    def data(self, untrusted_data: bytes) -> None:
        """Bytes of the open file. Raises ProtocolError above the size limits."""
        file = self._current
        if file is None:
            raise ProtocolError(
                "The sandbox sent a broken message.", "data without a file"
            )
        size = file.size + len(untrusted_data)
        self._total += len(untrusted_data)
        if (
            size > self._limits.file_mib * MIB
            or self._total > self._limits.work_mib * MIB
        ):
            raise ProtocolError("The sandbox sent a broken message.", "file too large")
        self._current = replace(file, size=size)
        if not self._current_is_lost:
            self._try_to_keep(file.content.write, untrusted_data)

    def end(self) -> None:
        """The open file is complete. Raises ProtocolError when none is open."""
        if self._current is None:
            raise ProtocolError(
                "The sandbox sent a broken message.", "end without a file"
            )
        file, self._current = self._current, None
        if not self._current_is_lost:
            self._try_to_keep(file.content.seek, 0)
        if self._current_is_lost:
            self._lost.append(SkippedFile(file.name, _NO_ROOM))
        else:
            self._files.append(file)

    def _try_to_keep(self, action: Callable[[Any], object], argument: object) -> None:
        try:
            action(argument)
        except OSError:
            self._current_is_lost = True

    def lost_files(self) -> tuple[SkippedFile, ...]:
        """Whole files that could not be kept."""
        return tuple(self._lost)

    def complete_files(self) -> tuple[OutputFile, ...]:
        """All whole files, sorted by name; an unfinished one is dropped."""
        if self._current is not None:
            self._current.content.close()
            self._current = None
        return tuple(sorted(self._files, key=lambda file: file.name))


# ===== end sandbox_core/archive.py =====

# ===== begin sandbox_core/payload.py =====

"""The texts of the guest's modules and of the launcher's: what runs inside the sandbox.

The only module that knows where they come from: in the source tree from the files next to
this one; in a generated plugin file the same names are constants, put there by the bundler.
``BUILD_ID`` is ``version+hash`` in a generated file, the same in both plugins of one build."""

BUILD_ID = "0.1.0+cfb3d031e4fe"

GUEST_FILES_SOURCE = r'''"""Files into and out of the work folder, from inside the sandbox.

Both functions run as the program's user: unpack() in a child of the guest, before the program
starts; collect() in the guest, which has no use for root any more after every process of the
program is dead (a child would cost tens of milliseconds). So no link and no race can give a
program anything that it could not read by itself, and its ``0600`` files can be read at all.

While they run stdin and stdout are theirs, and no byte passes through the guest's loop. All
bytes go through one buffer each: to allocate memory costs more in gVisor than to copy it.
"""

import os
import select
import stat
import time
from itertools import islice

from sandbox_core.guest_process import hook_path
from sandbox_core.guest_wire import frame_of, json_text, literal

CHUNK = 1 << 18
HEADER = 5
DEEPEST = 20
LARGEST_VALUE = 1 << 19
NAMED_SKIPS = 50
MOST_LISTED = 1000
COLLECT_SECONDS = 3.0
COUNTING_SECONDS = 1.0
NOT_OUTPUT = {"__pycache__", "node_modules", "site-packages"}
KINDS = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def write_all(descriptor, data):
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


# --- in ------------------------------------------------------------------------------------


def unpack(report, boot):
    """Make the home folder (answer: r), place the files of F and D frames from stdin up to an
    E frame (answer: t and the file system's time); ! and the reason when that fails."""
    try:
        prepare_home(boot)
        write_all(report, frame_of(b"r", b""))
        Unpacker().run()
        unpack_packages(boot["packages"])
        write_all(report, frame_of(b"t", b"%d" % file_system_time()))
    except OSError as error:
        write_all(report, frame_of(b"!", str(error.strerror).encode()))


def prepare_home(boot):
    """The home folder, one for compilers, and links to the image's prepared configuration of
    matplotlib."""
    os.makedirs(boot["home"], 0o755, exist_ok=True)
    os.makedirs(boot["build"], 0o755, exist_ok=True)
    if boot["node_hook"]:
        with open(hook_path(boot), "w") as file:
            file.write(boot["node_hook"])
    target = boot["env"]["MPLCONFIGDIR"]
    if not os.path.isdir(boot["mpl_source"]):
        return
    os.makedirs(target, exist_ok=True)
    for name in os.listdir(boot["mpl_source"]):
        os.symlink(os.path.join(boot["mpl_source"], name), os.path.join(target, name))


def unpack_packages(archive):
    """Unpack an archive of packages beside itself; it comes from another sandbox, and nothing
    here can do more than the program could."""
    if not archive or not os.path.exists(archive):
        return
    import tarfile

    with tarfile.open(archive) as opened:
        opened.extractall(os.path.dirname(archive))
    os.unlink(archive)


class Unpacker:
    """Places files as they come. After an error it reads on to the end all the same: the host
    sends everything before it listens."""

    def __init__(self):
        self.buffer = memoryview(bytearray(CHUNK))
        self.target = None
        self.problem = None
        os.set_blocking(0, True)

    def run(self):
        kind, size = self.next_header()
        while kind != b"E":
            if kind == b"F":
                self.attempt(self.open_target, literal(self.take(size))["name"])
            else:
                self.copy(size)
            kind, size = self.next_header()
        self.attempt(self.close_target)
        if self.problem is not None:
            raise self.problem

    def next_header(self):
        header = self.take(HEADER)
        return header[:1], int.from_bytes(header[1:], "big")

    def take(self, size):
        """Exactly so many bytes, which fit into the buffer."""
        taken = 0
        while taken < size:
            taken += self.read(self.buffer[taken:size])
        return bytes(self.buffer[:size])

    def copy(self, size):
        while size:
            count = self.read(self.buffer[:size])
            size -= count
            self.attempt(write_all, self.target, self.buffer[:count])

    def read(self, view):
        count = os.readv(0, [view])
        if not count:
            os._exit(0)  # our owner is gone; the guest will see it too
        return count

    def attempt(self, action, *arguments):
        if self.problem is None:
            try:
                action(*arguments)
            except OSError as error:
                self.problem = error

    def open_target(self, name):
        self.close_target()
        folder = os.path.dirname(name)
        if folder:
            os.makedirs(folder, exist_ok=True)
        self.target = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)

    def close_target(self):
        if self.target is not None:
            os.close(self.target)
            self.target = None


def file_system_time():
    """The clock that stamps files, in ns: a file changed later is new to us."""
    marker = ".placed"
    os.close(os.open(marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    stamp = os.stat(marker).st_ctime_ns
    os.unlink(marker)
    return stamp


# --- out -----------------------------------------------------------------------------------


class Ended(Exception):
    """The collector has to stop: the run was cancelled, or its time is up."""


class Collector:
    """Sends the value, what was shown, and every new or changed regular file of the work
    folder to stdout, all bounded. A word of the host on stdin ends it between two frames: by
    now that can only be "cancel", or the end."""

    def __init__(self, job, placed_at, value_path):
        self.value_path = value_path
        self.placed_at = placed_at
        self.files_left = job["files"]
        self.file_bytes = job["file_bytes"]
        self.bytes_left = job["collected_bytes"]
        self.job = job
        self.named = 0
        self.excess = 0
        self.counting_until = None
        self.buffer = memoryview(bytearray(HEADER + CHUNK))
        self.end = time.monotonic() + COLLECT_SECONDS
        self.cancelled = False
        self.host = select.poll()
        self.host.register(0, select.POLLIN)
        os.set_blocking(1, True)

    def run(self):
        try:
            self.send_value()
            self.send_displays()
            folders = [""]
            while folders:
                folders.extend(self.walk(folders.pop()))
            self.tell_excess()
        except Ended:
            if not self.cancelled:
                reason = f"collecting took longer than {COLLECT_SECONDS:g} s"
                self.send(b"k", {"name": "", "reason": reason})

    def look_at_clock(self):
        if time.monotonic() > self.end:
            raise Ended

    def look_at_host(self):
        self.cancelled = bool(self.host.poll(0))
        if self.cancelled:
            raise Ended

    def walk(self, folder):
        """Send the files of one folder ("" or a path with a final /); return its sub-folders."""
        self.look_at_host()
        found = []
        try:
            entries = with_permission(open_folder, folder or ".", 0o700)
        except OSError as error:
            self.skip(folder, error.strerror)
            return found
        with entries:
            for entry in entries:
                self.look_at_clock()
                if self.counting_until and time.monotonic() > self.counting_until:
                    break
                if entry.name.startswith(".") or entry.name in NOT_OUTPUT:
                    continue
                name = folder + entry.name
                if not entry.is_dir(follow_symlinks=False):
                    self.consider(entry, name)
                elif name.count("/") < DEEPEST:
                    found.append(name + "/")
                else:
                    self.skip(name, f"more than {DEEPEST} folders deep")
        return found

    def consider(self, entry, name):
        """Send a file if it is new or changed, regular, and within the bounds."""
        if self.files_left == 0 and self.excess:
            self.excess += 1
            return
        status = entry.stat(follow_symlinks=False)
        if status.st_ctime_ns <= self.placed_at:
            return
        reason = self.reason_against(status)
        if reason:
            self.skip(name, reason)
        elif self.files_left == 0:
            self.excess = 1
            self.counting_until = time.monotonic() + COUNTING_SECONDS
        else:
            self.send_file(name)

    def reason_against(self, status):
        for is_kind, word in KINDS:
            if is_kind(status.st_mode):
                return word + ", not a file"
        if status.st_size > self.file_bytes:
            return f"larger than the limit of {self.file_bytes >> 20} MB for one file"
        if status.st_size > self.bytes_left:
            return f"all files together are larger than {self.job['collected_bytes'] >> 20} MB"
        return ""

    def send_file(self, name):
        try:
            source = with_permission(open_file, name, 0o600)
        except OSError as error:
            self.skip(name, error.strerror)
            return
        self.files_left -= 1
        self.bytes_left -= self.send_content(b"f", name, source)

    def send_content(self, kind, name, source):
        """Send an open file whole, and close it; returns its size."""
        total = 0
        self.send(kind, {"name": printable(name)})
        self.buffer[:1] = b"d"
        size = os.readv(source, [self.buffer[HEADER:]])
        while size:
            total += size
            self.buffer[1:HEADER] = size.to_bytes(4, "big")
            self.write(self.buffer[: HEADER + size])
            self.look_at_clock()
            self.look_at_host()
            size = os.readv(source, [self.buffer[HEADER:]])
        os.close(source)
        self.send(b"q", {})
        return total

    def send_value(self):
        """The launcher's note of the last expression's value, if the last step left one."""
        try:
            source = open_file(self.value_path)
        except OSError:
            return
        if stat.S_ISREG(os.fstat(source).st_mode):
            self.write(frame_of(b"v", os.read(source, LARGEST_VALUE)))
        os.close(source)

    def send_displays(self):
        """The numbered files that the launcher has left in its folder, in order."""
        folder, room = self.job["display_folder"], self.job["all_display_bytes"]
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in islice(entries, MOST_LISTED))
        except OSError:
            return
        for name in names[: self.job["displays"]]:
            try:
                source = open_file(os.path.join(folder, name))
            except OSError:
                continue
            status = os.fstat(source)
            largest = min(room, self.job["display_bytes"])
            if stat.S_ISREG(status.st_mode) and status.st_size <= largest:
                room -= self.send_content(b"p", name, source)
            else:
                os.close(source)

    def skip(self, name, reason):
        self.named += 1
        if self.named <= NAMED_SKIPS:
            self.send(b"k", {"name": printable(name), "reason": reason})

    def tell_excess(self):
        if self.named > NAMED_SKIPS:
            reason = f"{self.named - NAMED_SKIPS} more things were left out"
            self.send(b"k", {"name": "", "reason": reason})
        if self.excess:
            more = "more than " if time.monotonic() > self.counting_until else ""
            reason = (
                f"{more}{self.excess} files beyond the limit of {self.job['files']}"
            )
            self.send(b"k", {"name": "", "reason": reason})

    def send(self, kind, values):
        self.write(frame_of(kind, json_text(values)))

    def write(self, data):
        """Send whole frames. The time that the host takes to read is not ours."""
        before = time.monotonic()
        write_all(1, data)
        self.end += time.monotonic() - before


def with_permission(open_it, name, mode):
    """open_it(name), with the permission bits that its owner may have taken away."""
    try:
        return open_it(name)
    except PermissionError:
        os.chmod(name, mode)
        return open_it(name)


def open_folder(name):
    os.stat(os.path.join(name, "."))  # to list it is not enough
    return os.scandir(name)


def open_file(name):
    return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)


def printable(name):
    """A file name as text: bytes that are not UTF-8 become replacement characters."""
    return os.fsencode(name).decode("utf-8", "replace")


def collect(work, job, placed_at, value_path):
    """Send what there is in the folder ``work`` and beside it; raises OSError."""
    with_permission(os.chdir, work, 0o700)
    Collector(job, placed_at, value_path).run()
'''

GUEST_PROCESS_SOURCE = r'''"""Processes inside the sandbox: how a child becomes the program, and what can be seen of it."""

import _signal
import ctypes
import os
import resource
import select

from sandbox_core.guest_wire import Sender

CHUNK = 1 << 18
RELEASE_DESCRIPTOR = 200
REPORT_DESCRIPTOR = 3
ROOT = 0
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
SYSLOG_READ_ALL = 3
MACHINES = {  # audit architecture, and the numbers of unshare, setns, clone, clone3
    "x86_64": (0xC000003E, 272, 308, 56, 435),
    "aarch64": (0xC00000B7, 97, 268, 220, 435),
}
CLONE_NEWUSER = 0x10000000
EPERM_ACTION = 0x00050001
ENOSYS_ACTION = 0x00050026
ALLOW_ACTION = 0x7FFF0000
SYSINFO = ctypes.create_string_buffer(128)


class Program:
    """The main process of a step, and our ends of its pipes."""

    def __init__(self, pid, stdin, stdout, stderr):
        self.pid = pid
        self.input = Sender(stdin)
        self.input_open = True
        self.supplied = False
        self.outputs = {stdout: b"o", stderr: b"e"}
        self.resting_until = {stdout: 0.0, stderr: 0.0}
        self.status = None
        for descriptor in self.outputs:
            os.set_blocking(descriptor, False)

    def supply(self, parts):
        """Give the program its whole stdin; it is closed after the last byte."""
        for part in parts:
            self.input.put(part)
        self.supplied = True
        self.feed()

    def interests(self, now, may_read):
        if self.input_open and self.supplied:
            yield self.input.descriptor, select.POLLOUT
        for descriptor, until in self.resting_until.items():
            if may_read and until <= now:
                yield descriptor, select.POLLIN

    def feed(self):
        self.input.flush()
        if self.supplied and not self.input.parts and self.input_open:
            os.close(self.input.descriptor)
            self.input_open = False

    def close_output(self, descriptor):
        os.close(descriptor)
        del self.outputs[descriptor]
        del self.resting_until[descriptor]

    def close(self):
        if self.input_open:
            os.close(self.input.descriptor)
            self.input_open = False
        for descriptor in list(self.outputs):
            self.close_output(descriptor)


class Helper:
    """A child that works on files as the program's user, with our stdin as its own; it reports
    in frames over a pipe, whose end tells that it is over."""

    def __init__(self, source):
        self.source = source
        self.received = bytearray()
        self.open = True
        os.set_blocking(source, False)

    def read(self):
        try:
            data = os.read(self.source, CHUNK)
        except BlockingIOError:
            return
        self.received += data
        self.open = bool(data)

    def close(self):
        """Take stdin back, which it has made blocking."""
        os.close(self.source)
        os.set_blocking(0, False)


class Launcher:
    """An interpreter that waits for its release; ``ready`` tells that it does."""

    def __init__(self, boot, argv, tells_ready):
        receive, self.release_end = os.pipe()
        self.ready, ready_end = os.pipe()
        extra = (receive, ready_end) if tells_ready else (receive,)
        self.program = start_program(boot, argv, {}, extra)
        os.close(receive)
        os.close(ready_end)

    def release(self, step):
        """Let it run the program of a step; gives the Program."""
        fields = ["path=" + step["path"], "value=" + step["value_path"]]
        fields += [f"env={name}={value}" for name, value in step["env"].items()]
        os.write(self.release_end, "\0".join([*fields, "", ""]).encode())
        self.close()
        return self.program

    def close(self):
        os.close(self.release_end)
        os.close(self.ready)


def start_python(boot, preload=()):
    """The launcher, which imports these modules first."""
    text, *arguments = boot["launcher"]
    argv = ["python3", "-c", text, str(RELEASE_DESCRIPTOR), *arguments, *preload]
    # Only one that preloads knows of the second descriptor, and closes it.
    return Launcher(boot, argv, bool(preload))


def start_node(boot):
    """A Node.js that waits in a module of ours; which program it runs the release tells."""
    return Launcher(boot, ["node", "-r", hook_path(boot), "main.js"], True)


def hook_path(boot):
    """Where the module is that a waiting Node.js loads, and its worker threads too."""
    return os.path.join(boot["build"], "wait.cjs")


def start_program(boot, argv, env, extra=()):
    """Start argv as the program's user. ``extra`` descriptors become 200, 201, … in it."""
    os.seteuid(boot["uid"])  # only the owner of a pipe may open it again as /dev/stdout
    try:
        stdin, stdout, stderr = os.pipe(), os.pipe(), os.pipe()
    finally:
        os.seteuid(ROOT)
    pid = os.fork()
    if pid == 0:
        try:
            for number, end in enumerate((stdin[0], stdout[1], stderr[1])):
                os.dup2(end, number)
            for number, end in enumerate(extra, RELEASE_DESCRIPTOR):
                os.dup2(end, number)
            os.setsid()
            for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
                _signal.signal(number, _signal.SIG_DFL)
            set_resource_limits(boot)
            drop_privileges(boot)
            os.chdir(boot["work"])
            os.execvpe(argv[0], argv, dict(boot["env"], **env))
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    for end in (stdin[0], stdout[1], stderr[1]):
        os.close(end)
    return Program(pid, stdin[1], stdout[0], stderr[0])


def is_program(path, name):
    """Whether the image has a program of this name. Only root can write where it looks."""
    folders = path.split(":")
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders)


def start_helper(boot, work):
    """Run work(report) in a child that has become the program's user."""
    receive, report = os.pipe()
    if os.fork() == 0:
        try:
            _signal.set_wakeup_fd(-1)
            os.dup2(report, REPORT_DESCRIPTOR)
            os.closerange(REPORT_DESCRIPTOR + 1, 256)
            drop_privileges(boot)
            os.chdir(boot["work"])
            work(REPORT_DESCRIPTOR)
        finally:
            os._exit(0)
    os.close(report)
    return Helper(receive)


def set_resource_limits(boot):
    for kind, value in (
        # gVisor counts this process for the user that made it: root.
        (resource.RLIMIT_NPROC, boot["processes"] - 1),
        (resource.RLIMIT_NOFILE, boot["open_files"]),
        (resource.RLIMIT_FSIZE, boot["file_size"]),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))


def drop_privileges(boot):
    """Become the program's user for good."""
    os.umask(0o022)
    os.setgroups([])
    os.setresgid(boot["gid"], boot["gid"], boot["gid"])
    os.setresuid(boot["uid"], boot["uid"], boot["uid"])


def forbid_user_namespaces():
    """Seccomp for this process and all that it starts: a new user namespace would switch
    RLIMIT_NPROC off. clone3 hides its flags from a filter, so libc has to fall back to clone.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    machine = MACHINES.get(os.uname().machine)
    if machine is None:
        raise OSError("no system call filter for " + os.uname().machine)
    audit, unshare, setns, clone, clone3 = machine
    load, jump_equal, jump_set, give = 0x20, 0x15, 0x45, 0x06
    rules = (
        (load, 0, 0, 4),  # seccomp_data.arch
        (jump_equal, 0, 8, audit),
        (load, 0, 0, 0),  # seccomp_data.nr
        (jump_equal, 5, 0, unshare),
        (jump_equal, 4, 0, setns),
        (jump_equal, 4, 0, clone3),
        (jump_equal, 0, 4, clone),
        (load, 0, 0, 16),  # the flags, low half of the first argument
        (jump_set, 0, 2, CLONE_NEWUSER),
        (give, 0, 0, EPERM_ACTION),
        (give, 0, 0, ENOSYS_ACTION),
        (give, 0, 0, ALLOW_ACTION),
    )
    code = b"".join(
        kind.to_bytes(2, "little")
        + bytes((when, otherwise))
        + value.to_bytes(4, "little")
        for kind, when, otherwise, value in rules
    )
    program = ctypes.create_string_buffer(code, len(code))
    address = ctypes.addressof(program)
    header = ctypes.create_string_buffer(16)
    header[0:2] = len(rules).to_bytes(2, "little")
    header[8:16] = address.to_bytes(8, "little")
    for option, first, second in (
        (PR_SET_NO_NEW_PRIVS, 1, None),
        (PR_SET_SECCOMP, 2, header),
    ):
        if libc.prctl(option, first, second, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), f"prctl refused option {option}")


def describe_kernel():
    """What the kernel says of itself. gVisor's kernel log is its own; no other has its line."""
    log = ctypes.create_string_buffer(1 << 16)
    size = ctypes.CDLL(None).klogctl(SYSLOG_READ_ALL, log, len(log))
    with open("/proc/version") as version:
        return {
            "gvisor": size > 0 and b"Starting gVisor" in log.raw[:size],
            "kernel": version.read(200).strip(),
        }


def memory_now(folders):
    """(free, used by programs) in bytes. What fills the size-capped folders is not used."""
    values = {}
    with open("/proc/meminfo", "rb") as lines:
        for line in lines:
            name, rest = line.split(b":")
            values[name] = int(rest.split()[0]) * 1024
    in_folders = 0
    for folder in folders:
        status = os.statvfs(folder)
        in_folders += (status.f_blocks - status.f_bfree) * status.f_frsize
    return values[b"MemFree"], values[b"AnonPages"] - in_folders


def is_one_full(folders):
    """Whether one of the folders has less than 64 KiB left."""
    free = (os.statvfs(folder) for folder in folders)
    return any(status.f_bavail * status.f_frsize < 1 << 16 for status in free)


def count_tasks():
    """Processes and threads of the whole sandbox, this one included."""
    ctypes.CDLL(None).sysinfo(SYSINFO)
    return int.from_bytes(SYSINFO[80:82], "little")


def kill_all():
    """SIGKILL for every process but this one, in every process group and namespace."""
    try:
        os.kill(-1, _signal.SIGKILL)
    except ProcessLookupError:
        pass
'''

GUEST_SOURCE = r'''"""The guest: the first process in every sandbox. It runs the steps of one job and ends.

The host sends this text, then frames, over the container's stdin, and reads frames from its
stdout; nothing else leads in or out. From the host: B boot, F file, D its data, E end of the
files, I stdin, G go, C cancel. To the host: h hello, n the image has no such language, c a
compiler started, s the program started, o/e output, x step ended, v value, p display (a picture
or rich value), f file, d the data of either, q its end, k skipped, ! failed, z done.

It runs as root of the container with SETUID, SETGID and KILL only, and opens no path in a
folder that the program can write: when the last program is over it becomes the program's user
itself, and hands over the files as that (see guest_files.py). Its start-up is everybody's waiting
time: hence ``_signal``, whose Python half costs more to import than all the rest.
"""

import _signal
import os
import select
import time

from sandbox_core.guest_files import collect, unpack
from sandbox_core.guest_process import (
    describe_kernel,
    drop_privileges,
    forbid_user_namespaces,
    is_one_full,
    is_program,
    kill_all,
    start_helper,
    start_node,
    start_program,
    start_python,
)
from sandbox_core.guest_watch import Watch
from sandbox_core.guest_wire import (
    CHUNK,
    Wire,
    json_text,
    literal,
    take_frame,
)

BACKLOG = 1 << 18  # unsent bytes above which the program's pipes rest
COALESCE_SECONDS = 0.005
BURST = 1 << 15  # a read this long means that more is there: do not pause
IDLE_SECONDS = 60.0
LEASE_OVER = 75
READY = b"r"
FLAGS = (
    "cancelled",
    "timed_out",
    "memory_killed",
    "output_capped",
    "processes_killed",
    "processes_full",
    "disk_full",
)


class Guest:
    """One job, from the boot frame to ``done``."""

    def __init__(self):
        self.wire = Wire()
        self.boot = None
        self.job = None
        self.input_data = []
        self.program = None
        self.helper = None
        self.unpacking = False
        self.launcher = None  # what was started before the job, and waits for it
        self.ready = None  # its end of warming up, as long as we wait for that
        self.flags = dict.fromkeys(FLAGS, False)
        self.printed = 0
        self.announcement = b""  # of a step that has started
        self.value_path = ""  # of the last step that was started
        self.seconds = 0.0  # of the programs, without the compilers
        self.watch = None
        self.lease_end = time.monotonic() + 60
        self.wake, wake_write = os.pipe()
        os.set_blocking(self.wake, False)
        os.set_blocking(wake_write, False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)

    def run(self):
        while self.boot is None:
            self.turn()
        forbid_user_namespaces()
        self.unpacking = True
        self.helper = start_helper(self.boot, lambda report: unpack(report, self.boot))
        if self.boot["preload"] or self.boot["node_hook"]:
            self.warm_up()
        self.watch = Watch(self.boot)
        self.watch.look_at_memory()  # takes milliseconds, and nobody waits yet
        self.wire.send(b"h", json_text(describe_kernel()))
        try:
            placed_at = self.await_unpacked()
            while self.job is None:
                self.turn()
            self.run_steps()
            self.collect_files(placed_at)
        except OSError as error:
            self.wire.send(b"!", json_text({"reason": str(error)}))
        self.finish()

    def warm_up(self):
        """Start an interpreter and wait until it can take a program, or has died."""
        while not self.helper.received:  # the home folder, which it looks into
            self.turn()
        if self.boot["preload"]:
            self.launcher = start_python(self.boot, self.boot["preload"])
        elif is_program(self.boot["env"]["PATH"], "node"):
            self.launcher = start_node(self.boot)
        else:
            return
        self.ready = self.launcher.ready
        while self.ready is not None:
            self.turn()

    # --- the poll loop -----------------------------------------------------------------

    def turn(self, wait=1.0):
        """One turn: wait for a descriptor or a timer, serve what is ready, look around."""
        now = time.monotonic()
        if now > self.lease_end:
            os._exit(LEASE_OVER)
        poll = select.poll()
        for descriptor, event in self.interests(now):
            poll.register(descriptor, event)
        pause = max(0.0, min(wait, self.next_timer(now) - now))
        for descriptor, _ in poll.poll(pause * 1000):
            self.serve(descriptor)
        self.wire.sender.flush()
        self.reap()
        if self.program is not None and self.program.status is None:
            self.look(time.monotonic())

    def interests(self, now):
        """(descriptor, event) for all that this turn should wake up for."""
        helper, program, unsent = self.helper, self.program, self.wire.sender.unsent
        yield self.wake, select.POLLIN
        if self.ready is not None:
            yield self.ready, select.POLLIN
        if not self.unpacking:  # then the unpacker reads it
            yield 0, select.POLLIN
        if unsent:
            yield 1, select.POLLOUT
        if helper is not None and helper.open:
            yield helper.source, select.POLLIN
        if program is not None:
            yield from program.interests(now, unsent < BACKLOG)

    def next_timer(self, now):
        timers = [self.lease_end]
        if self.program is not None:
            timers.append(self.watch.next)
            timers += [
                until for until in self.program.resting_until.values() if until > now
            ]
        return min(timers)

    def serve(self, descriptor):
        helper, program = self.helper, self.program
        if descriptor == 0:
            self.wire.receive()
            self.accept_frames()
        elif descriptor == self.wake:
            os.read(self.wake, 4096)
        elif descriptor == self.ready:
            if not os.read(descriptor, 1):  # it has died
                self.drop_launcher()
            self.ready = None
        elif helper is not None and descriptor == helper.source:
            helper.read()
        elif program is not None and descriptor in program.outputs:
            self.read_output(descriptor)
        elif program is not None:
            program.feed()

    def accept_frames(self):
        frame = take_frame(self.wire.received)
        while frame is not None:
            kind, payload = frame
            if kind == b"C":
                self.cancel()
            elif kind == b"B":
                self.boot = literal(payload)
                self.lease_end = time.monotonic() + self.boot["lease_seconds"]
            elif kind == b"G":
                self.job = literal(payload)
                self.lease_end = time.monotonic() + self.job["lease_seconds"]
            elif kind == b"I":
                self.input_data.append(payload)
            frame = take_frame(self.wire.received)

    def cancel(self):
        self.flags["cancelled"] = True
        kill_all()

    def read_output(self, descriptor):
        """Pass on one chunk of a program's pipe. Returns False when there is none."""
        program = self.program
        try:
            data = os.read(descriptor, CHUNK)
        except BlockingIOError:
            return False
        if not data:
            program.close_output(descriptor)
            return False
        self.announce()
        room = self.job["output_bytes"] - self.printed
        self.printed += len(data)
        if room > 0:
            self.wire.send(program.outputs[descriptor], data[:room])
        if len(data) > room:
            self.flags["output_capped"] = True
            self.stop_program("output_capped")
        if len(data) < BURST:
            # Small writes come in bursts; one frame each would cost more than the program.
            program.resting_until[descriptor] = time.monotonic() + COALESCE_SECONDS
        return True

    def look(self, now):
        """Look at what the program uses, when it is time to."""
        if now < self.watch.next:
            return
        self.announce()
        flag = self.watch.verdict(now, self.job)
        if flag is not None:
            self.stop_program(flag)

    def stop_program(self, flag):
        """Kill all processes, for the first reason that there is."""
        if self.program.status is None:
            self.flags[flag] = True
            kill_all()

    def reap(self):
        """Reap what has died. Returns False when no child is left at all."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return True
                if self.program is not None and pid == self.program.pid:
                    self.program.status = status
        except ChildProcessError:
            return False

    def bury_all(self):
        """Kill and reap until waitpid proves that nothing is left."""
        kill_all()
        while self.reap():
            time.sleep(0.001)
            kill_all()

    # --- steps -------------------------------------------------------------------------

    def await_unpacked(self):
        """The file system's time after all files were placed, in ns. Raises OSError."""
        helper = self.helper
        kind, payload = READY, b""
        while kind == READY:
            frame = take_frame(helper.received)
            if frame is not None:
                kind, payload = frame
            elif helper.open:
                self.turn(IDLE_SECONDS)
            else:
                kind, payload = b"!", b"the unpacker was killed"
        helper.close()
        self.helper = None
        self.unpacking = False
        if kind != b"t":
            raise OSError("The files could not be placed: " + payload.decode())
        return int(payload)

    def run_steps(self):
        has_idle_launcher = self.launcher and not self.job["steps"][0]["warm"]
        if has_idle_launcher:
            self.dismiss_launcher()
        if has_idle_launcher or self.input_data:
            self.watch.look_at_memory()
        for index, step in enumerate(self.job["steps"]):
            if self.flags["cancelled"] or not self.run_step(index, step):
                break
        self.flags["processes_full"] = self.watch.full

    def run_step(self, index, step):
        """Run one step to its end; everything it started is dead then. True if it went well."""
        header = json_text({"step": index})
        if step["needs"] and not is_program(self.boot["env"]["PATH"], step["needs"]):
            self.wire.send(b"n", header)
            return False
        if step["compile"]:
            self.wire.send(b"c", header)
            compiler = start_program(self.boot, step["compile"], step["env"])
            code, number = self.follow(compiler, [], self.job["compile_seconds"])
            if code != 0:
                self.tell_end(index, code, number)
                return False
        self.value_path = step["value_path"]
        program = self.start_step(step)
        started = time.monotonic()
        self.announcement = header
        given, self.input_data = self.input_data, []
        code, number = self.follow(program, given, self.job["seconds"] - self.seconds)
        self.seconds += time.monotonic() - started
        self.tell_end(index, code, number)
        return code == 0

    def follow(self, program, given, seconds):
        """Wait until a program has ended, and bury all that it started. Gives its exit code and
        the signal that killed it, one of them None."""
        self.program = program
        self.watch.begin(seconds)
        program.supply(given)
        while program.status is None:
            self.turn()
        self.announce()
        if self.watch.left_a_crowd():
            self.flags["processes_killed"] = True
        self.bury_all()
        self.drain_outputs()
        self.flags["disk_full"] |= is_one_full(self.boot["folders"])
        program.close()
        self.program = None
        if os.WIFSIGNALED(program.status):
            return None, os.WTERMSIG(program.status)
        return os.WEXITSTATUS(program.status), None

    def tell_end(self, index, code, number):
        ended = {"step": index, "exit_code": code, "signal": number}
        self.wire.send(b"x", json_text(ended))

    def announce(self):
        """Tell that the step has started, once. Not at once: of a quick program this travels
        with the first output, and does not wake up the host beside it."""
        if self.announcement:
            self.wire.send(b"s", self.announcement)
            self.announcement = b""

    def start_step(self, step):
        launcher, self.launcher = self.launcher, None
        if launcher is None and step["launched"]:
            launcher = start_python(self.boot)
        if launcher is None:
            return start_program(self.boot, step["argv"], step["env"])
        return launcher.release(step)

    def dismiss_launcher(self):
        """The first step cannot have what waits: nothing of it shall be in its way."""
        self.drop_launcher()
        self.bury_all()

    def drop_launcher(self):
        self.launcher.close()
        self.launcher.program.close()
        self.launcher = None

    def drain_outputs(self):
        """All writers are dead, so an empty pipe stays empty. Do not wait for its end: a
        writing end that was on its way through a socket may outlive its processes."""
        for descriptor in list(self.program.outputs):
            while self.read_output(descriptor):
                while self.wire.sender.unsent >= BACKLOG:
                    self.turn()

    # --- the end -----------------------------------------------------------------------

    def collect_files(self, placed_at):
        """Hand over what the programs have left, as their user: every process of theirs is
        dead. Our stdout is the collector's then, which bounds its own time; the host's time
        to read is bounded by the lease."""
        while self.wire.sender.unsent:
            self.turn()
        _signal.signal(_signal.SIGALRM, lambda *_: os._exit(LEASE_OVER))
        left = max(0.001, self.lease_end - time.monotonic())
        _signal.setitimer(_signal.ITIMER_REAL, left)
        drop_privileges(self.boot)
        collect(self.boot["work"], self.job, placed_at, self.value_path)

    def finish(self):
        self.wire.send(b"z", json_text(dict(self.flags, seconds=self.seconds)))
        while self.wire.sender.unsent:
            self.turn()
        os._exit(0)


if __name__ == "__main__":
    Guest().run()
'''

GUEST_WATCH_SOURCE = r'''"""The watch over what a program uses: time, memory and processes."""

import time

from sandbox_core.guest_process import count_tasks, memory_now

WATCH_SECONDS = 0.02, 0.1  # each look takes time from the program
FILL_RATE = 4 << 30  # bytes a second: no program takes memory faster
# So long at the process limit means: a fork bomb, not a busy program.
FULL_SECONDS = 2.0


class Watch:
    """Looks at one program after another; ``full`` says that one touched the process limit."""

    def __init__(self, boot):
        self.boot = boot
        self.used_before = 0
        self.full = False
        self.full_since = None
        self.next = 0.0
        self.end = 0.0

    def look_at_memory(self):
        """What is used now is not the program's: the guest, a launcher, the input."""
        self.used_before = memory_now(self.boot["folders"])[1]

    def begin(self, seconds):
        """A program starts, and has so many seconds."""
        now = time.monotonic()
        self.end = now + seconds
        self.next = now + WATCH_SECONDS[0]

    def verdict(self, now, job):
        """The flag that says why the program must end now; None when it may go on."""
        if now > self.end:
            return "timed_out"
        free, used = memory_now(self.boot["folders"])
        left = min(
            job["memory_bytes"] - (used - self.used_before),
            free - job["reserve_bytes"],
        )
        if left < 0:
            return "memory_killed"
        shortest, longest = WATCH_SECONDS
        self.next = now + max(shortest, min(longest, left / FILL_RATE))
        return "processes_killed" if self.is_crowded(now) else None

    def is_crowded(self, now):
        limit = self.boot["processes"]
        count = count_tasks() - 1
        if count < limit - 1:
            self.full_since = None
            return False
        self.full = True
        self.full_since = self.full_since or now
        return now - self.full_since > FULL_SECONDS or count > 2 * limit

    def left_a_crowd(self):
        """Whether a program that has ended leaves too many behind. It may have filled up and
        ended between two looks, hence this last one; on a busy machine a fork bomb has burnt down
        by then, but not to a few."""
        self.is_crowded(time.monotonic())
        return self.full and count_tasks() > self.boot["processes"] // 8
'''

GUEST_WIRE_SOURCE = r'''"""Frames between guest and host, seen from inside the sandbox.

A frame is one ASCII letter, a 4-byte big-endian length and the payload. Headers from the
host are Python literals, because the host is trusted and a literal needs no import; headers
to the host are JSON, because the host must not trust this side. ``_json`` and ``_collections``
are the C halves of packages: importing these would cost each run some ten milliseconds each.
"""

import _json
import os
from _collections import deque  # type: ignore[import-not-found]

CHUNK = 1 << 18


def json_text(value):
    """JSON bytes of nested dicts with plain keys, lists, str, numbers, bool and None."""
    return _json_of(value).encode()


def _json_of(value):
    if isinstance(value, str):
        return _json.encode_basestring_ascii(value)
    if isinstance(value, dict):
        pairs = (
            _json_of(name) + ":" + _json_of(entry) for name, entry in value.items()
        )
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_json_of(entry) for entry in value) + "]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return repr(value)


def literal(payload):
    """The value of a header from the host."""
    return eval(payload.decode(), {"__builtins__": {}})


def frame_of(kind, payload):
    return kind + len(payload).to_bytes(4, "big") + payload


def take_frame(buffer):
    """Cut one whole frame (kind, payload) off the front of a bytearray; None if incomplete."""
    if len(buffer) < 5:
        return None
    end = 5 + int.from_bytes(buffer[1:5], "big")
    if len(buffer) < end:
        return None
    kind, payload = bytes(buffer[:1]), bytes(buffer[5:end])
    del buffer[:end]
    return kind, payload


class Sender:
    """Bytes on their way into a pipe that may be full. Never blocks."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.parts = deque()
        self.unsent = 0
        os.set_blocking(descriptor, False)

    def put(self, data):
        if data:
            self.parts.append(memoryview(data))
            self.unsent += len(data)

    def flush(self):
        """Write what the pipe takes now. A reader that is gone loses the rest."""
        while self.parts:
            try:
                written = os.write(self.descriptor, self.parts[0][:CHUNK])
            except BlockingIOError:
                return
            except BrokenPipeError:
                self.parts.clear()
                self.unsent = 0
                return
            self.unsent -= written
            rest = self.parts.popleft()[written:]
            if rest:
                self.parts.appendleft(rest)


class Wire:
    """Frames from descriptor 0 and to descriptor 1. Never blocks."""

    def __init__(self):
        self.received = bytearray()
        self.buffer = memoryview(bytearray(CHUNK))  # to allocate is slow in gVisor
        self.sender = Sender(1)
        os.set_blocking(0, False)

    def receive(self):
        """Read what is there; the end of the stream means that our owner is gone."""
        try:
            size = os.readv(0, [self.buffer])
        except BlockingIOError:
            return
        if not size:
            os._exit(0)
        self.received += self.buffer[:size]

    def send(self, kind, payload=b""):
        self.sender.put(frame_of(kind, payload))
'''

LAUNCHER_DISPLAY_SOURCE = r'''"""The launcher's display part: a program's figures, images and rich values, as files.

The launcher executes this text when a program first imports something that can show a
picture, or when its last value has a rich form. What is shown goes to numbered files in a
folder outside the work folder, ``NUMBER-KIND.ENDING``; at most MOST_DISPLAYS of them.

The program must not notice. So nothing here is ever below the program's own calls on the
stack, where a traceback would show it; nothing that drawing says is printed; and a forked
child shows nothing. Only this differs from a plain run with the Agg backend:

* the first pyplot command that draws after ``show()`` starts a new figure, as it does
  wherever showing opens windows, and in a notebook;
* what drawing settles (positions of an automatic layout) is settled by ``show()``.

No module is imported that is not loaded already: a file of the program could take its place.
"""

import io
import os
import sys

from sandbox_core.launcher_figures import Figures, Quietly

MOST_DISPLAYS = 40
LARGEST_DISPLAY = 8 << 20
ALL_DISPLAYS = 24 << 20
# A PNG larger than this is a photograph, which JPEG keeps better.
LARGEST_PNG = 2 << 20
# In the order in which a notebook prefers them.
RICH_FORMS = (
    ("text/html", "_repr_html_", "html"),
    ("image/svg+xml", "_repr_svg_", "svg"),
    ("image/png", "_repr_png_", "png"),
    ("image/jpeg", "_repr_jpeg_", "jpg"),
)
BINARY_ENDINGS = ("png", "jpg")
FRAME_MARK = 'class="dataframe"'


class Folder:
    """The numbered files of what was shown. Called only by the program's own process."""

    def __init__(self, path):
        self.path = path

    def add(self, kind, ending, data, replaced=None):
        """Keep a display if there is room for it; its path, or None. ``replaced``: the path of
        the one whose place it takes."""
        os.makedirs(self.path, exist_ok=True)
        if replaced is not None:
            os.unlink(replaced)
        names = os.listdir(self.path)
        used = sum(os.stat(os.path.join(self.path, name)).st_size for name in names)
        room = min(LARGEST_DISPLAY, ALL_DISPLAYS - used)
        if self.is_full() or len(data) > room:
            return None
        number = max((int(name.partition("-")[0]) for name in names), default=0) + 1
        stem = f"{number:03d}-{kind}"
        if replaced is not None:
            stem = os.path.splitext(os.path.basename(replaced))[0]
        path = os.path.join(self.path, f"{stem}.{ending}")
        self.write(path, data)
        return path

    def is_full(self):
        return os.path.isdir(self.path) and len(os.listdir(self.path)) >= MOST_DISPLAYS

    def write(self, path, data):
        """A whole file or none: what is not complete has no name that counts."""
        try:
            with open(path + ".part", "wb") as file:
                file.write(data)
            os.replace(path + ".part", path)
        except OSError:
            os.unlink(path + ".part")


class Display:
    """All that a program shows. The launcher makes one, and calls its public methods."""

    def __init__(self, path):
        self.folder = Folder(path)
        self.process = os.getpid()
        self.figures = None

    def module_imported(self, name):
        """A module that can show something is there: be told when it does."""
        if name == "matplotlib.pyplot":
            self.all_figures().watch(sys.modules[name])
        elif name == "plotly.io._renderers":
            self.watch_charts(sys.modules[name])
        else:
            self.watch_images(sys.modules[name])

    def program_ended(self):
        """Show the figures that are still open."""
        if self.figures is not None and self.figures.pyplot is not None:
            self.figures.add_open()

    def text_of(self, value):
        """The text form of a rich value, where its repr is a worse one; else None."""
        try:
            if is_a(value, "pandas", "DataFrame"):
                return frame_text(value)
            markdown = rich_form(value, "text/markdown", "_repr_markdown_")
            return markdown if isinstance(markdown, str) else None
        except Exception:
            return None

    def show_value(self, value):
        """Show the last value as a notebook does, if it has more than a text form."""
        if is_a(value, "matplotlib.figure", "Figure"):
            self.all_figures().add(value)
            return
        if is_a(value, "PIL.Image", "Image"):
            self.folder.add("value", *encode_image(value))
            return
        for media, method, ending in RICH_FORMS:
            data = as_bytes(rich_form(value, media, method), ending)
            if data:
                # The text form of a frame says the same, and can be read by a model too.
                if ending != "html" or FRAME_MARK.encode() not in data:
                    self.folder.add("value", ending, data)
                return

    def all_figures(self):
        if self.figures is None:
            self.figures = Figures(self.folder)
        return self.figures

    def watch_images(self, image_show):
        display = self

        class Viewer(image_show.Viewer):
            """Takes the images that the program shows; PIL asks it before all others."""

            format = "PNG"

            def show_image(self, image, **options):
                if os.getpid() != display.process:
                    return 0
                with Quietly():
                    display.folder.add("image", *encode_image(image))
                return 1

        image_show.register(Viewer(), 0)

    def watch_charts(self, plotly):
        """Be the renderer of plotly's show(), unless the program names one."""
        display = self

        class Renderer(plotly.ExternalRenderer):
            """Takes a chart as HTML that fetches plotly's script when it is looked at."""

            def render(self, chart):
                if os.getpid() != display.process:
                    return
                with Quietly():
                    to_html = sys.modules["plotly.io"].to_html
                    html = to_html(chart, include_plotlyjs="cdn", validate=False)
                    display.folder.add("figure", "html", html.encode())

        plotly.renderers["run_code"] = Renderer()
        if "PLOTLY_RENDERER" not in os.environ:
            plotly.renderers.default = "run_code"


def is_a(value, module, name):
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(value, kind)


def encode_image(image):
    """(ending, bytes) of an image of PIL."""
    if image.mode not in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        image = image.convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    if buffer.tell() <= LARGEST_PNG or image.mode not in ("L", "RGB"):
        return "png", buffer.getvalue()
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=90)
    return "jpg", buffer.getvalue()


def frame_text(frame):
    """A table of pandas as text: whole lines, as many rows and columns as a notebook shows."""
    get_option = sys.modules["pandas"].get_option
    return frame.to_string(
        max_rows=get_option("display.max_rows"),
        min_rows=get_option("display.min_rows"),
        max_cols=get_option("display.max_columns"),
        show_dimensions=get_option("display.show_dimensions"),
    )


def rich_form(value, media, method):
    """One form of a value by its protocol's methods, or None."""
    for name in ("_repr_mimebundle_", method):
        if not hasattr(type(value), name):
            continue
        form = getattr(value, name)()
        form = form[0] if isinstance(form, tuple) else form
        if name == "_repr_mimebundle_":
            form = form.get(media) if isinstance(form, dict) else None
        if form is not None:
            return form
    return None


def as_bytes(form, ending):
    """The bytes of a form; images may come as base64, which whoever made it has loaded."""
    if isinstance(form, str) and ending in BINARY_ENDINGS:
        binascii = sys.modules.get("binascii")
        return binascii and binascii.a2b_base64(form)
    if isinstance(form, str):
        return form.encode("utf-8", "replace")
    return form if isinstance(form, bytes) else None
'''

LAUNCHER_FIGURES_SOURCE = r'''"""The launcher's figures: each one of matplotlib is drawn when it is shown, or left open.

A part of the display program, see launcher_display.py. Nothing here is ever below the
program's own calls on the stack, where a traceback would show it: what is asked for is found
by looking at the callers from events that every call passes.
"""

import io
import os
import sys
from _thread import get_ident

MOST_PIXELS = 16_000_000
LARGEST_FILE = 8 << 20
PICTURE_ENDINGS = ("png", "jpg", "jpeg", "webp", "svg")  # what a browser shows
# An SVG has its date in it, and names its parts by a random hash of ten digits.
CHANGING_IN_SVG = rb"<dc:date>[^<]*|[0-9a-f]{10}(?=[\"');])"
# The functions of pyplot through which all others get the axes that they draw in.
STARTING = ("gca", "axes", "subplot", "subplot2grid", "suptitle")
DEEPEST_CALL = 20


class Muted:
    """Stands in for a stream while we draw: silent for the drawing thread alone."""

    def __init__(self, stream):
        self._stream = stream
        self._thread = get_ident()

    def write(self, text):
        if get_ident() == self._thread:
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name):
        return getattr(self._stream, name)


class Quietly:
    """A block that draws: it prints and logs nothing, and fails without a word."""

    LIBRARIES = ("matplotlib", "PIL", "fontTools")

    def __enter__(self):
        self.streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = (
            stream if stream is None else Muted(stream) for stream in self.streams
        )
        self.warnings = sys.modules.get("warnings")
        if self.warnings is not None:
            self.show_warning = self.warnings.showwarning
            self.warnings.showwarning = self.mute(self.show_warning)
        self.loggers = [one for one in self.library_loggers() if not one.disabled]
        for logger in self.loggers:
            logger.disabled = True

    def __exit__(self, kind, error, trace):
        for logger in self.loggers:
            logger.disabled = False
        if self.warnings is not None:
            self.warnings.showwarning = self.show_warning
        sys.stdout, sys.stderr = self.streams
        return kind is not None and issubclass(kind, (Exception, SystemExit))

    def library_loggers(self):
        logging = sys.modules.get("logging")
        if logging is None:
            return
        for name, logger in list(logging.root.manager.loggerDict.items()):
            if name.partition(".")[0] in self.LIBRARIES and hasattr(logger, "disabled"):
                yield logger

    def mute(self, show):
        thread = get_ident()

        def show_of_others(*arguments, **options):
            if get_ident() != thread:
                show(*arguments, **options)

        return show_of_others


class Picture:
    """How a figure was drawn when it was shown or saved, and the file that it went to."""

    def __init__(self, figure, options, path=None):
        self.options = options
        self.path = path
        self.places = places_of(figure)
        self.parts = parts_of(figure)
        self.look = None

    def file_if_unchanged(self, figure):
        """The bytes of the file, if the figure has not changed since and a look at its parts
        can tell (drawing leaves some of them marked as changed); else None."""
        if self.path is None or self.parts != parts_of(figure):
            return None
        if any(part.stale for part in figure.get_children()):
            return None
        return read_file(self.path)

    def draw_again(self, figure):
        """An automatic layout moves a little with each drawing: leave all where it was."""
        layout = layout_of(figure)
        if layout is None:
            return draw(figure, self.options)
        figure.set_layout_engine("none")
        places = places_of(figure)
        try:
            put(self.places)
            return draw(figure, self.options)
        finally:
            put(places)
            figure.set_layout_engine(layout)


class Figures:
    """Shows the figures of matplotlib: one display for each state that was shown."""

    def __init__(self, folder):
        weakref = sys.modules["weakref"]
        self.folder = folder
        self.process = os.getpid()
        self.shown = weakref.WeakKeyDictionary()
        self.saved = weakref.WeakKeyDictionary()  # the last picture file of each
        self.finished = weakref.WeakSet()  # what was shown by pyplot's show()
        self.pyplot = None

    def watch(self, pyplot):
        """Be told of what is shown, saved and drawn. No call to a program's code is wrapped."""
        if self.pyplot is not None:
            return
        self.pyplot = vars(pyplot)
        bases = sys.modules["matplotlib.backend_bases"]
        helpers = sys.modules["matplotlib._pylab_helpers"]
        show_anyway = bases.FigureManagerBase.show
        init_event = bases.DrawEvent.__init__
        get_active = helpers.Gcf.get_active
        self.managers = helpers.Gcf.get_all_fig_managers

        def show(manager):
            if os.getpid() != self.process or not is_agg(manager.canvas):
                return show_anyway(manager)
            return self.show(manager.canvas.figure, sys._getframe(1))

        def init(event, name, canvas, renderer):
            init_event(event, name, canvas, renderer)
            self.note_saving(canvas.figure, sys._getframe(1))

        def active():
            manager = get_active()
            if manager is None or manager.canvas.figure not in self.finished:
                return manager
            return None if self.is_starting(sys._getframe(1).f_back) else manager

        bases.FigureManagerBase.show = show
        bases.DrawEvent.__init__ = init
        helpers.Gcf.get_active = staticmethod(active)

    def show(self, figure, caller):
        """Show a figure now; the frame tells which function of pyplot, if any, asks for it."""
        asking = {frame.f_code.co_name for frame in self.pyplot_frames(caller)}
        if "pause" in asking:
            return  # a step of an animation, not its end
        self.add(figure)
        if "show" in asking:
            self.finished.add(figure)

    def add(self, figure):
        """Make a display of the figure, unless it looks as it did when it was shown."""
        if len(figure.get_children()) < 2 or self.folder.is_full():
            return  # there is nothing but its background, or no room
        with Quietly():
            before, saved = self.shown.get(figure), self.saved.get(figure)
            is_same = before and look_of(before.draw_again(figure)) == before.look
            if is_same and (saved is None or saved.options is before.options):
                return
            data, picture = self.draw_as_saved(figure, saved)
            # Saved after it was shown: one display still, which is the same as the file now.
            replaced = before.path if is_same else None
            ending = picture.options["format"]
            picture.path = self.folder.add("figure", ending, data, replaced)
            picture.look = look_of(data)
            self.shown[figure] = picture
            figure.stale = False  # whatever changes from now on says so

    def draw_as_saved(self, figure, saved):
        """(bytes, Picture) of a figure; the bytes of the file that it was saved as, if that is
        how it looks still: who gets files and displays can tell then that they are one.
        """
        if saved is None:
            options = new_options(figure)
            return draw(figure, options), Picture(figure, options)
        picture = Picture(figure, saved.options)
        data = saved.file_if_unchanged(figure)
        if data:
            return data, picture
        data = saved.draw_again(figure)
        kept = saved.path and read_file(saved.path)
        if kept and look_of(data) == look_of(kept):
            picture.places = saved.places
            return kept, picture
        if layout_of(figure) is None:
            picture.places = saved.places
            return data, picture
        return draw(figure, saved.options), Picture(figure, saved.options)

    def add_open(self):
        """Show what is open when the program has ended."""
        for manager in sorted(self.managers(), key=lambda manager: manager.num):
            figure = manager.canvas.figure
            was_shown = figure in self.shown and not figure.stale
            if is_agg(manager.canvas) and has_content(figure) and not was_shown:
                self.add(figure)

    def note_saving(self, figure, frame):
        """Remember how the figure is being saved as a picture: shown later, it is the same."""
        values = next(filter(None, map(saving_arguments, frames_from(frame))), None)
        if values is None or not isinstance(values["fname"], (str, os.PathLike)):
            return
        path = os.path.abspath(values["fname"])
        ending = os.path.splitext(path)[1][1:].lower()
        ending = values["kwargs"].get("format") or ending or "png"
        if ending in PICTURE_ENDINGS:
            options = dict(values["kwargs"], transparent=values["transparent"])
            for picture in self.saved.values():
                if picture.path == path:
                    picture.path = None  # this one takes its place
            self.saved[figure] = Picture(figure, dict(options, format=ending), path)

    def is_starting(self, frame):
        """Whether a function of pyplot asks for the figure to draw in."""
        return (
            frame is not None
            and frame.f_globals is self.pyplot
            and frame.f_code.co_name in STARTING
            and os.getpid() == self.process
        )

    def pyplot_frames(self, frame):
        return (one for one in frames_from(frame) if one.f_globals is self.pyplot)


def frames_from(frame):
    for _ in range(DEEPEST_CALL):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def saving_arguments(frame):
    """The arguments of a figure's savefig(), if that is what runs in the frame."""
    module = frame.f_globals.get("__name__")
    is_saving = module == "matplotlib.figure" and frame.f_code.co_name == "savefig"
    return frame.f_locals if is_saving else None


def is_agg(canvas):
    """Whether it is the default backend's: who has chosen another one shows things there."""
    return type(canvas).__name__ == "FigureCanvasAgg"


def has_content(figure):
    """Whether there is more than empty axes, as a plot that failed leaves them behind."""
    return any(axes.has_data() or axes.texts or axes.tables for axes in figure.axes)


def new_options(figure):
    """How a notebook shows a figure, but never so large that memory is short."""
    width, height = figure.get_size_inches()
    dpi = min(figure.dpi, (MOST_PIXELS / max(1, width * height)) ** 0.5)
    return {"format": "png", "bbox_inches": "tight", "dpi": dpi}


def draw(figure, options):
    buffer = io.BytesIO()
    figure.savefig(buffer, **options)
    return buffer.getvalue()


def look_of(data):
    """What two drawings that look the same have in common."""
    if data[:5] == b"<?xml":
        data = sys.modules["re"].sub(CHANGING_IN_SVG, b"", data)
    return hash(data)


def places_of(figure):
    return [(axes, axes.get_position(True)) for axes in figure.axes]


def parts_of(figure):
    """What a figure is made of, and its size: of all else each part knows its changes."""
    return [*figure.get_size_inches(), *map(id, figure.get_children())]


def put(places):
    for axes, place in places:
        axes._set_position(place)  # set_position would take it out of the layout


def layout_of(figure):
    return figure.get_layout_engine() if hasattr(figure, "get_layout_engine") else None


def read_file(path):
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST_FILE + 1)
    except OSError:
        return None
'''

LAUNCHER_SOURCE = r'''"""Starts one Python program as a real ``__main__``, from a cold or a warm interpreter.

The guest runs this text as ``python3 -c LAUNCHER RELEASE_FD DISPLAY FOLDER [MODULE...]``, as
the program's user, in the work folder, with the program's own environment and pipes. DISPLAY
is the text of another program, which is run when there is a figure, an image or a rich value
to show, and puts them into FOLDER. The modules named are imported first, and a byte on
descriptor RELEASE_FD + 1 tells that they are; none means cold. Then the launcher waits on
RELEASE_FD for the release: fields ``name=value``, each followed by a NUL, and one more NUL
after the last. Neither paths, nor arguments, nor environment variables can hold a NUL, so
nothing is quoted.

``path``   absolute path of the program (once)
``value``  file that gets the value of a last bare expression, as JSON ``{"text": repr}`` (once)
``arg``    one argument of the program, in order (any number)
``env``    one ``NAME=value`` to add to the environment (any number)

If RELEASE_FD ends first, the launcher exits with 0 and says nothing. The value file is written
only if there is a value, is at most 400 KiB, and must be read as something that the program
could have written itself.

Everything else is as with ``python3 PATH ARGUMENTS``: exit status, output, threads, signals.
Only this differs, and cannot be helped:

* one more frame is below ``__main__``: seen in a printed stack, as the caller of module code,
  by a ``stacklevel`` that goes beyond the program, by a trace or profile function at the end,
  and as one or two calls less before the recursion limit;
* ``/proc/self/cmdline`` shows the launcher; modules preloaded (and from Python 3.13 on
  ``linecache``, which ``-c`` itself imports) are in ``sys.modules`` from the beginning, with
  the warning filters they set; what the garbage collector counts and calls frozen, and the
  process's age, are other ones;
* importing is watched: one more call of the import system is seen by a trace function;
* the value of a last bare expression lives until the program's threads have ended, and the code
  of ``__main__`` has one more constant, which takes that value.

Only what every interpreter has built in or has loaded at its start is imported here: a cold
start costs no more, and no file beside the program can take the place of a module.
"""

import _ast
import _signal
import atexit
import io
import os
import sys
import time

# importlib's own name for itself: importing importlib would run a file of that name.
SourceFileLoader = sys.modules["_frozen_importlib_external"].SourceFileLoader
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, TracebackType
    from typing import Any, TypeGuard

VALUE_CHARACTERS = 64 * 1024
VALUE_SECONDS = 2.0
FIGURES_SECONDS = 10.0
# Who imports one of these may show figures or images.
SHOWING_MODULES = ("matplotlib.pyplot", "PIL.ImageShow", "plotly.io._renderers")
# Tracebacks leave out what belongs to an import, which they know by this name.
IMPORT_SYSTEM = "<frozen importlib._bootstrap>"
CUT_MARK = " … (cut)"
JSON_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(32), ord('"'), ord("\\"))}
# Stands in the syntax tree for the object that takes the last value; no program has this string.
TAKER_MARK = "the launcher's taker of the last value"
# What the interpreter takes out of __main__ when a program file has ended.
FORGOTTEN_NAMES = ("__file__", "__cached__")
PROCESS = os.getpid()


def preload(names: list[str]) -> None:
    """Import the modules; one that fails does so again in the program that imports it."""
    # The descriptors are silenced, not sys.stdout and sys.stderr: a module may keep those.
    saved = os.dup(1), os.dup(2)
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    for name in names:
        try:
            __import__(name)
        except Exception:
            continue
    # Or the interpreter searches them for garbage at its end, for 0.4 s.
    __import__("gc").freeze()
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(saved[0], 1)
    os.dup2(saved[1], 2)
    for descriptor in (*saved, silence):
        os.close(descriptor)


def receive(descriptor: int) -> dict[str, list[str]]:
    """The fields of the release by name; SystemExit when there is none."""
    message = b""
    while not message.endswith(b"\0\0"):
        chunk = os.read(descriptor, 65536)
        if not chunk:
            raise SystemExit
        message += chunk
    os.close(descriptor)
    fields: dict[str, list[str]] = {"path": [], "value": [], "arg": [], "env": []}
    for field in os.fsdecode(message[:-2]).split("\0"):
        name, _, value = field.partition("=")
        fields[name].append(value)
    return fields


def new_main() -> dict[str, object]:
    """Put a new module in the place of ``__main__`` and return its namespace.

    Before the preload, because multiprocessing keeps the module that it finds; and empty until
    after it: what is frozen then is no garbage at the end.
    """
    main = type(sys)("__main__")
    sys.modules["__main__"] = main
    return vars(main)


def dress(path: str, arguments: list[str], additions: list[str]) -> None:
    """Make argv, path and environment those of ``python3 PATH ARGUMENTS``."""
    sys.argv = [path, *arguments]
    if hasattr(sys, "orig_argv"):
        sys.orig_argv = [sys.orig_argv[0], path, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    for addition in additions:
        name, _, value = addition.partition("=")
        os.environ[name] = value
        if name == "TZ":
            time.tzset()


def load(path: str, arguments: list[str], taker: "LastValue") -> "CodeType":
    """The program's code; the taker gets the value of a last bare expression.

    What cannot be read or compiled, plain python3 is put in this one's place to complain of:
    nothing of the program has run yet, and nobody else words it as the interpreter does.
    """
    stderr = sys.stderr
    # Plain python3 would say the warnings again, so they wait until the program is compiled.
    sys.stderr = held = io.StringIO()
    try:
        with open(path, "rb") as file:
            code = compile_program(file.read(), path, taker)
    except Exception:
        os.execv(sys.executable, [sys.executable, path, *arguments])
    finally:
        sys.stderr = stderr
    if held.getvalue():
        stderr.write(held.getvalue())
    return code


def compile_program(source: bytes, path: str, taker: "LastValue") -> "CodeType":
    """Compile as `load` says, whatever compile raises; no flag of the launcher's is inherited.

    A shown expression ``x`` becomes ``x in taker``: nothing but one more operation at the end
    of the same code, which calls no method of x, so that debuggers and tracebacks see the same.
    """
    tree = compile(source, path, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, _ast.Module)
    if not tree.body or not is_shown(tree.body[-1], source):
        return compile(tree, path, "exec", dont_inherit=True)
    last = tree.body[-1]
    place = {name: getattr(last.value, name) for name in last.value._attributes}
    mark = _ast.Constant(TAKER_MARK, **place)
    last.value = _ast.Compare(last.value, [_ast.In()], [mark], **place)
    code = compile(tree, path, "exec", dont_inherit=True)
    constants = (taker if one == TAKER_MARK else one for one in code.co_consts)
    return code.replace(co_consts=tuple(constants))


def is_shown(last: _ast.stmt, source: bytes) -> "TypeGuard[_ast.Expr]":
    """Whether a notebook shows the last statement's value: no literal, no `;` after it."""
    if not isinstance(last, _ast.Expr) or isinstance(last.value, _ast.Constant):
        return False
    lines = source[3 * source.startswith(b"\xef\xbb\xbf") :].splitlines()
    end = last.end_lineno or last.lineno
    rest = [lines[end - 1][last.end_col_offset :], *lines[end:]]
    return not any(b";" in line.partition(b"#")[0] for line in rest)


class LastValue:
    """Takes the value of the last bare expression; it goes to a file when the program ends."""

    def __init__(self, path: str, displays: "Displays") -> None:
        self.path = path
        self.displays = displays

    def __contains__(self, value: object) -> bool:
        # A coroutine that nobody awaited has to end here: its warning names the running line.
        if value is not None and not hasattr(type(value), "cr_code"):
            atexit.register(self.write, value)
        return True

    def write(self, value: object) -> None:
        """Write the value's repr, then better forms of it: those may fail or take too long."""
        at_end(VALUE_SECONDS, lambda: self.write_text(bounded_repr(value)))
        at_end(VALUE_SECONDS, self.show, value)

    def write_text(self, text: str) -> None:
        """Write the value's text, in place of an earlier one."""
        if len(text) > VALUE_CHARACTERS:
            text = text[:VALUE_CHARACTERS] + CUT_MARK
        with open(self.path, "w", encoding="utf-8", errors="replace") as file:
            file.write(f'{{"text": "{text.translate(JSON_ESCAPES)}"}}')

    def show(self, value: object) -> None:
        """Show a value that speaks the protocol of notebooks, and write its text form."""
        if any(name.startswith("_repr_") for name in dir(type(value))):
            display = self.displays.load()
            text = display.text_of(value)
            if text:
                self.write_text(text)
            display.show_value(value)


class Displays:
    """Runs the display part, once there is something to show."""

    def __init__(self, program: str, folder: str) -> None:
        self.program = program
        self.folder = folder
        self.part: Any = None

    def load(self) -> "Any":
        """The display part, which is told when the program has ended."""
        if self.part is None:
            space: dict[str, Any] = {"__name__": "run_code_display"}
            exec(compile(self.program, "<display>", "exec", dont_inherit=True), space)
            self.part = space["Display"](self.folder)
            atexit.register(at_end, FIGURES_SECONDS, self.part.program_ended)
        return self.part

    def watch(self) -> None:
        """Have SHOWING_MODULES told to the display part, once they have been imported.

        The finder is changed, and not sys.meta_path, which a program may look at.
        """
        for name in SHOWING_MODULES:
            if name in sys.modules:
                self.imported(name)
        finder = sys.modules["_frozen_importlib_external"].PathFinder
        find = finder.find_spec

        def find_spec(name: str, *arguments: "Any") -> "Any":
            spec = find(name, *arguments)
            if name in SHOWING_MODULES and hasattr(spec, "loader"):
                self.follow(spec.loader, name)
            return spec

        finder.find_spec = staticmethod(as_import(find_spec))

    def follow(self, loader: "Any", name: str) -> None:
        """Be told when the loader has executed its module."""
        execute = loader.exec_module

        def exec_module(module: object) -> None:
            execute(module)
            self.imported(name)

        loader.exec_module = as_import(exec_module)

    def imported(self, name: str) -> None:
        """Tell the display part of a module; a fork shows nothing."""
        try:
            if os.getpid() == PROCESS:
                self.load().module_imported(name)
        except Exception:
            return  # not the library that we know


def as_import(function: "Any") -> "Any":
    """The function, as a part of the import system in the eyes of tracebacks."""
    function.__code__ = function.__code__.replace(co_filename=IMPORT_SYSTEM)
    return function


def at_end(seconds: float, work: "Any", *arguments: object) -> None:
    """Do work for the ended program, silently, unless that fails or takes too long.

    Of the program's own process alone: a fork that runs to its end does nothing.
    """
    if os.getpid() != PROCESS:
        return
    streams = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = io.StringIO()
    handler = _signal.signal(_signal.SIGALRM, stop_work)
    timer = _signal.setitimer(_signal.ITIMER_REAL, seconds, 0.1)
    try:
        try:
            work(*arguments)
        finally:
            _signal.setitimer(_signal.ITIMER_REAL, 0)
    except BaseException:
        pass  # the program has ended already, and how is not for this to say
    _signal.signal(_signal.SIGALRM, handler or _signal.SIG_DFL)
    _signal.setitimer(_signal.ITIMER_REAL, *timer)
    sys.stdout, sys.stderr = streams


def stop_work(number: int, frame: object) -> None:
    """Signal handler that ends what takes too long."""
    raise TimeoutError


def bounded_repr(value: "Any") -> str:
    """The value's repr; of a long sequence, only that of its beginning."""
    if type(value) in (str, bytes, list, tuple):
        # An item is at least one character long, so this cuts nothing that would be shown.
        value = value[:VALUE_CHARACTERS]
    return repr(value)


class Report:
    """The exception hook for the exception that ends the program.

    It hands on to the program's own hook what that would have got without a launcher. Being
    called by the interpreter, when the launcher's frame has gone, it leaves all else to it:
    exit status, signal 2 for KeyboardInterrupt, SystemExit raised by a hook.
    """

    def __init__(self) -> None:
        self.hook = sys.excepthook

    def __call__(self, kind: "Any", error: BaseException, trace: "Any") -> None:
        trace = without_launcher(error)
        sys.last_traceback = trace
        sys.excepthook = self.hook
        try:
            self.hook(kind, error, trace)
        except SystemExit:
            raise
        except BaseException as failure:
            sys.stderr.write("Error in sys.excepthook:\n")
            sys.__excepthook__(type(failure), failure, without_launcher(failure))
            sys.stderr.write("\nOriginal exception was:\n")
            sys.__excepthook__(kind, error, trace)
        if trace is not None:
            for name in FORGOTTEN_NAMES:
                trace.tb_frame.f_globals.pop(name, None)


def without_launcher(error: BaseException) -> "TracebackType | None":
    """Drop the launcher's frames from the error's traceback, and return what is left."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_globals is globals():
        trace = trace.tb_next
    BaseException.with_traceback(error, trace)
    return trace


if __name__ == "__main__":
    if sys.path[0] == "":
        del sys.path[0]
    namespace = new_main()
    displays = Displays(*sys.argv[2:4])
    if sys.argv[4:]:
        preload(sys.argv[4:])
    displays.watch()
    if sys.argv[4:]:
        os.write(int(sys.argv[1]) + 1, b"r")
        os.close(int(sys.argv[1]) + 1)
    release = receive(int(sys.argv[1]))
    path, arguments = release["path"][0], release["arg"]
    dress(path, arguments, release["env"])
    code = load(path, arguments, LastValue(release["value"][0], displays))
    if "__annotations__" in globals():
        namespace["__annotations__"] = {}
    namespace.update(__builtins__=__builtins__, __file__=path)
    namespace.update(__cached__=None, __loader__=SourceFileLoader("__main__", path))
    report = Report()
    # From here on no function is called that the program's own trace function could see.
    try:
        exec(code, namespace)
        for name in FORGOTTEN_NAMES:
            namespace.pop(name, None)
    except SystemExit:
        raise
    except BaseException:
        report.hook = getattr(sys, "excepthook", sys.__excepthook__)
        sys.excepthook = report
        raise
    finally:
        del namespace
        for name in ("stderr", "stdout"):
            try:
                getattr(sys, name).flush()
            except BaseException:
                continue  # reported, if it still fails, when the interpreter flushes again
'''

# ===== end sandbox_core/payload.py =====

# ===== begin sandbox_core/guest_program.py =====

"""The programs of a sandbox that are made of several modules' texts."""

_OWN_IMPORT = re.compile(r"^from sandbox_core\.\w+ import .*\n", re.MULTILINE)


@cache
def guest_program() -> str:
    """What the bootstrap in a fresh sandbox reads and becomes: it registers the guest's modules
    under their names and runs it."""
    modules = (
        ("sandbox_core.guest_wire", GUEST_WIRE_SOURCE),
        ("sandbox_core.guest_process", GUEST_PROCESS_SOURCE),
        ("sandbox_core.guest_files", GUEST_FILES_SOURCE),
        ("sandbox_core.guest_watch", GUEST_WATCH_SOURCE),
    )
    lines = ["import sys", "sys.modules['sandbox_core'] = type(sys)('sandbox_core')"]
    for name, source in modules:
        lines.append(f"module = sys.modules[{name!r}] = type(sys)({name!r})")
        lines.append(f"exec(compile({source!r}, {name!r}, 'exec'), module.__dict__)")
    lines.append(
        f"exec(compile({GUEST_SOURCE!r}, 'guest', 'exec'), {{'__name__': '__main__'}})"
    )
    return "\n".join(lines) + "\n"


@cache
def display_program() -> str:
    """What the launcher runs when a program shows something: its parts in one name space, so
    that nothing has to be imported."""
    return _OWN_IMPORT.sub("", LAUNCHER_FIGURES_SOURCE + LAUNCHER_DISPLAY_SOURCE)


# ===== end sandbox_core/guest_program.py =====

# ===== begin sandbox_core/displays.py =====

"""What a run showed, on the host's side: figures, images and rich values, bounded.

The sandbox sends them as files of a folder that the program could have written itself. Their
names say what they are, ``NUMBER-KIND.ENDING``; what has no such name is no display.
"""

# Their number, the size of each, and of all together; the launcher keeps to the same.
DISPLAY_LIMITS = Limits(files=40, file_mib=8, work_mib=24)
_DISPLAY_NAME = re.compile(
    r"\d{3,4}-(figure|image|value)\.(png|jpg|jpeg|webp|svg|html)"
)
_MEDIA_BY_ENDING = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "svg": "image/svg+xml",
    "html": "text/html",
}
_COMPARED_AT_ONCE = 1 << 18


def name_displays(
    received: Iterable[OutputFile], files: Iterable[OutputFile]
) -> tuple[Display, ...]:
    """The displays among what came from the sandbox, each once, with names for people.

    What is the same as one of the run's files, byte for byte, is left out: the file is shown.
    Called once for each run; contents are positioned at their start again.
    """
    files = tuple(files)
    seen = list(files)
    taken = {file.name for file in files}
    displays = []
    counts = dict.fromkeys(("figure", "image", "value"), 0)
    for entry in received:
        match = _DISPLAY_NAME.fullmatch(entry.name)
        if match is None or any(_is_same_picture(entry, other) for other in seen):
            entry.content.close()
            continue
        kind, ending = match.groups()
        counts[kind] += 1
        name = free_name(f"{kind}-{counts[kind]}.{ending}", taken)
        taken.add(name)
        seen.append(entry)
        displays.append(
            Display(_MEDIA_BY_ENDING[ending], name, entry.size, entry.content)
        )
    return tuple(displays)


def _is_same_picture(one: OutputFile, other: OutputFile) -> bool:
    if one.size != other.size:
        return False
    try:
        return _same_content(one.content, other.content)
    finally:
        one.content.seek(0)
        other.content.seek(0)


def _same_content(one: IO[bytes], other: IO[bytes]) -> bool:
    while chunk := one.read(_COMPARED_AT_ONCE):
        if chunk != other.read(_COMPARED_AT_ONCE):
            return False
    return True


# ===== end sandbox_core/displays.py =====

# ===== begin sandbox_core/node_hook.py =====

"""What a waiting Node.js does before its program: the text of a module for ``node -r``.

A Node.js that has started takes a program at once; starting takes it 0.4 s in gVisor. It says
on descriptor 201 that it is there, and waits on 200 for the same release as the launcher of
Python does, of which it reads the ``path``. Everything else is as with ``node PATH``; only the
process's age and ``process.moduleLoadList`` are other ones. Worker threads load this module as
well, which Node.js inherits to them.
"""

NODE_HOOK = """\
"use strict";
const { isMainThread } = require("worker_threads");
delete require.cache[__filename];
process.execArgv.length = 0;
process._preload_modules.length = 0;
if (isMainThread) {
  const fs = require("fs");
  const Module = require("module");
  const RELEASE = 200;
  const READY = 201;
  fs.writeSync(READY, "r");
  fs.closeSync(READY);
  const buffer = Buffer.alloc(65536);
  let message = "";
  while (!message.endsWith("\\0\\0")) {
    const size = fs.readSync(RELEASE, buffer);
    if (size === 0) process.exit(0);
    message += buffer.toString("utf8", 0, size);
  }
  fs.closeSync(RELEASE);
  const field = message.split("\\0").find((text) => text.startsWith("path="));
  const path = field.slice("path=".length);
  process.argv[1] = path;
  // Node.js starts the main program by this function, and lets a preloaded module replace it.
  // A getter and a bound function leave no trace, not even in the stack of an error.
  const usual = Object.getOwnPropertyDescriptor(Module, "runMain");
  Object.defineProperty(Module, "runMain", {
    configurable: true,
    get() {
      Object.defineProperty(Module, "runMain", usual);
      return usual.value.bind(Module, path);
    },
  });
}
"""

# ===== end sandbox_core/node_hook.py =====

# ===== begin sandbox_core/protocol.py =====

"""The host's side of the frames between host and guest.

A frame is one ASCII letter, a 4-byte big-endian length and the payload (guest_wire.py has
the other side). Whatever comes from the sandbox is untrusted: kind, length, order and
content are checked here, and a breach raises ProtocolError.
"""

DATA_CHUNK = 1 << 20
_JOINED_BYTES = 1 << 16
_LARGEST_DATA = 1 << 18
_LARGEST_HEADER = 1 << 16
_DATA_KINDS = b"oed"
_HEADER_KINDS = b"hncsxvpfqk!z"
_LARGEST_VALUE = 1 << 19
_MISSING = object()
_FRAME_HEAD = 5  # kind and length

_BOOTSTRAP = """\
import os
def read(size):
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            os._exit(70)
        data += part
    return data
exec(compile(read(int(read(8))), "guest", "exec"))
"""


def bootstrap_argv(python: str = "python3") -> list[str]:
    """The container's command: read a program of a stated length from stdin and become it."""
    return [python, "-I", "-S", "-c", _BOOTSTRAP]


def encode_program(text: str) -> bytes:
    """The first bytes that the bootstrap reads: eight digits of length, then the program."""
    data = text.encode()
    return b"%08d" % len(data) + data


def encode_frame(kind: str, payload: bytes | memoryview = b"") -> bytes:
    """One frame for the guest; ``payload`` may be empty."""
    return kind.encode() + len(payload).to_bytes(4, "big") + payload


def joined_frames(frames: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in fewer pieces: each one that travels wakes up several processes."""
    pending = b""
    for frame in frames:
        if pending and len(pending) + len(frame) > _JOINED_BYTES:
            yield pending
            pending = b""
        pending += frame
    if pending:
        yield pending


def encode_header(kind: str, values: Mapping[str, Any]) -> bytes:
    """A frame whose payload is a Python literal: the guest trusts us, and need not import."""
    return encode_frame(kind, repr(dict(values)).encode())


def parse_header(
    untrusted_payload: bytes, types: Mapping[str, type | tuple[type, ...]]
) -> Any:
    """The named fields of a header from the sandbox, each of its stated type.

    Raises ProtocolError when it is no flat JSON object, or a field is missing or of another
    type. Numbers must be finite; unknown fields are dropped.
    """
    try:
        untrusted = json.loads(untrusted_payload)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(
            "The sandbox sent a broken message.", repr(error)
        ) from error
    if not isinstance(untrusted, dict):
        raise ProtocolError("The sandbox sent a broken message.", "header is no object")
    for name, kinds in types.items():
        value = untrusted.get(name, _MISSING)
        wanted = kinds if isinstance(kinds, tuple) else (kinds,)
        is_stray_bool = isinstance(value, bool) and bool not in wanted
        if not isinstance(value, wanted) or is_stray_bool:
            raise ProtocolError("The sandbox sent a broken message.", f"field {name}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ProtocolError("The sandbox sent a broken message.", f"field {name}")
    return {name: untrusted[name] for name in types}


class FrameReader:
    """Cuts frames out of the byte stream of one sandbox; never holds more than one header."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._kind = ""
        self._left = 0  # bytes of a data frame that are still to come

    def feed(self, untrusted_data: bytes) -> Iterator[tuple[str, bytes]]:
        """Take bytes as they came; yield (kind, payload) for each header that is now complete,
        and for each piece of a data frame (kinds o, e, d), which need not be whole: it costs
        no copy. Whoever does not take them all loses the rest.

        Raises ProtocolError at an unknown kind or an oversized length, as soon as its five
        header bytes are there.
        """
        start = 0
        while start < len(untrusted_data):
            if self._left:
                piece = untrusted_data[start : start + self._left]
                start += len(piece)
                self._left -= len(piece)
                yield self._kind, piece
                continue
            end = start + self._missing()
            self._received += untrusted_data[start:end]
            start = end
            yield from self._complete_header()

    def _missing(self) -> int:
        """How many bytes of a header the reader waits for."""
        received = self._received
        if len(received) < _FRAME_HEAD:
            return _FRAME_HEAD - len(received)
        return (
            _FRAME_HEAD + int.from_bytes(received[1:_FRAME_HEAD], "big") - len(received)
        )

    def _complete_header(self) -> Iterator[tuple[str, bytes]]:
        received = self._received
        if len(received) < _FRAME_HEAD:
            return
        kind, length = bytes(received[:1]), int.from_bytes(
            received[1:_FRAME_HEAD], "big"
        )
        _check_frame(kind, length)
        if kind in _DATA_KINDS:
            self._kind, self._left = kind.decode("ascii"), length
            received.clear()
        elif not self._missing():
            payload = bytes(received[_FRAME_HEAD:])
            received.clear()  # before the yield: the caller may leave the loop there
            yield kind.decode("ascii"), payload


def _check_frame(untrusted_kind: bytes, untrusted_length: int) -> None:
    if untrusted_kind in _DATA_KINDS:
        largest = _LARGEST_DATA
    elif untrusted_kind in _HEADER_KINDS:
        largest = _LARGEST_VALUE if untrusted_kind == b"v" else _LARGEST_HEADER
    else:
        raise ProtocolError(
            "The sandbox sent a broken message.", f"kind {untrusted_kind!r}"
        )
    if untrusted_length > largest:
        raise ProtocolError(
            "The sandbox sent a broken message.", f"length {untrusted_length}"
        )


# ===== end sandbox_core/protocol.py =====

# ===== begin sandbox_core/job.py =====

"""What the guest is told: the boot frame, and the frames of one job."""

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


# ===== end sandbox_core/job.py =====

# ===== begin sandbox_core/boot.py =====

"""From nothing to a guest that waits for its job: what cold runs and the pool both do first."""

_HELLO_POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class BootedSandbox:
    """A sandbox whose guest is ready. ``reader`` holds the state of its frame stream, of
    which ``hello`` was the first payload; ``waiting`` is as in its spec."""

    channel: Channel
    reader: FrameReader
    hello: bytes
    waiting: str = ""


def boot_sandbox(
    engine: Engine, spec: SandboxSpec, cancel: CancelToken, deadline: Deadline
) -> BootedSandbox:
    """Start a sandbox, send it the guest, and wait until it says hello.

    With ``spec.waiting`` that is when the interpreter is ready for a program. Raises EngineError;
    NotIsolated when the kernel in there is not gVisor's; ChannelClosed when
    cancelled; ProtocolError. On any raise nothing is left.
    """
    channel = engine.start(spec, cancel, deadline)
    try:
        lease_seconds = spec.expires_at - time.time()
        frame = boot_frame(
            spec.limits,
            lease_seconds,
            spec.waiting,
            spec.preload,
            has_packages=bool(spec.packages_mib),
            proxy=spec.proxy,
        )
        channel.send(encode_program(guest_program()) + frame, deadline)
        reader = FrameReader()
        hello = _await_hello(channel, reader, cancel, deadline)
        if not parse_header(hello, {"gvisor": bool})["gvisor"]:
            raise NotIsolated(
                f"The runtime “{spec.runtime}” is not gVisor, so nothing was run. An "
                "administrator should register runsc under this name (docs/setup.md)."
            )
    except BaseException:
        channel.close()
        raise
    return BootedSandbox(channel, reader, hello, spec.waiting)


def _await_hello(
    channel: Channel, reader: FrameReader, cancel: CancelToken, deadline: Deadline
) -> bytes:
    while not deadline.passed():
        if cancel.is_set():
            raise ChannelClosed("The run was stopped on request.")
        untrusted_data = channel.recv(min(_HELLO_POLL_SECONDS, deadline.remaining()))
        if untrusted_data == b"":
            raise ChannelClosed(
                "The sandbox ended unexpectedly. Try again; if it stays, tell your "
                "administrator."
            )
        frames = list(reader.feed(untrusted_data or b""))
        if frames:  # until the job comes, it has to say nothing else
            if [kind for kind, _ in frames] != ["h"]:
                raise ProtocolError("The sandbox sent a broken message.", "no hello")
            return frames[0][1]
    raise StartFailed("The sandbox did not answer in time. Try again.")


# ===== end sandbox_core/boot.py =====

# ===== begin sandbox_core/pool.py =====

"""Sandboxes started before they are needed. Each is used once and thrown away.

A pool keeps a few booted sandboxes for every kind that was asked for lately, refills itself
in the background, and never makes a run wait: it has one, or the run starts cold. A kind has
one interpreter that waits for a program.

To make one costs more processor time than to start a run cold. So as long as runs under way can
use all processors, it hardly makes any: more runs would get done without.
"""

_pool_log = logging.getLogger("run_code.pool")

# What an idle sandbox with the default modules costs the host (docs/performance.md).
IDLE_SANDBOX_MIB = 128
_BOOT_SECONDS = 60.0
_TIDY_SECONDS = 5.0
_OLDEST_SECONDS = 1800.0
_LONGEST_RUN_SECONDS = 4000.0
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 60.0
_POOL_CLOSE_SECONDS = 20.0
# So often one is made all the same, for those whose programs only wait.
_CROWDED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class PoolSettings:
    """``size`` sandboxes of each kind; none when 0. ``idle_seconds`` after a kind was last
    asked for, its sandboxes go. All of them together stay within ``memory_budget_mib``.
    """

    size: int = 1
    idle_seconds: float = 900.0
    memory_budget_mib: int = 512
    preload: tuple[str, ...] = ("numpy", "pandas", "matplotlib.pyplot")

    @property
    def most(self) -> int:
        """The largest number of idle sandboxes of all kinds."""
        return self.memory_budget_mib // IDLE_SANDBOX_MIB if self.size else 0


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Counters since the start; ``refill_seconds`` is the time of the last refill."""

    hits: int = 0
    misses: int = 0
    refills: int = 0
    failures: int = 0
    idle: int = 0
    refill_seconds: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class _Idle:
    sandbox: BootedSandbox
    made_at: float


class _Shelf:
    """The idle sandboxes of one kind."""

    def __init__(self, spec: SandboxSpec) -> None:
        self.spec = spec
        self.wanted_at = 0.0
        self.idle: deque[_Idle] = deque()


class WarmPool:
    """Idle sandboxes of one engine. Thread-safe; its own thread starts at the first take.

    ``processors`` is how many the runs have to share; by default all of this machine's.
    """

    def __init__(
        self, engine: Engine, settings: PoolSettings, processors: int | None = None
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._processors = processors or os.cpu_count() or 1
        self._runs = 0
        self._made_at = -math.inf
        self._shelves: dict[SandboxSpec, _Shelf] = {}
        self._stats = PoolStats()
        self._changed = threading.Condition()
        self._closed = False
        self._woken = False
        self._cancel = CancelToken()
        self._thread: threading.Thread | None = None
        self._pause = 0.0
        self._next_try = 0.0

    def want(self, spec: SandboxSpec, waiting: str = "python") -> bool:
        """Have one made for runs like this, in the background; True if one is ready."""
        with self._changed:
            shelf = self._shelf_for(spec, waiting)
            self._wake()
            return shelf is not None and bool(shelf.idle)

    def take(self, spec: SandboxSpec, waiting: str = "python") -> BootedSandbox | None:
        """A sandbox as this spec asks for, if one is ready; never waits. Rather one in which
        another interpreter waits than none: it has started all the same. The taker has to
        close it. The next one is made after a run, or when want() is called."""
        dead = []
        found: BootedSandbox | None = None
        with self._changed:
            shelf = self._shelf_for(spec, waiting)
            if shelf is None:
                return None
            for each in (shelf, *self._alike(shelf)):
                while each.idle and found is None:
                    candidate = each.idle.popleft()
                    if _is_usable(candidate):
                        found = candidate.sandbox
                    else:
                        dead.append(candidate)
            hit = found is not None
            self._stats = replace(
                self._stats,
                hits=self._stats.hits + hit,
                misses=self._stats.misses + (not hit),
            )
        for entry in dead:
            entry.sandbox.channel.close()
        return found

    def begin_run(self) -> None:
        """Called when a run begins, whatever its kind."""
        with self._changed:
            self._runs += 1

    def end_run(self) -> None:
        """Called once for each begun run: now is a good time to make what is missing."""
        with self._changed:
            self._runs -= 1
            self._wake()

    def stats(self) -> PoolStats:
        """The counters as they are now."""
        with self._changed:
            return replace(self._stats, idle=self._count())

    def close(self) -> None:
        """Throw all idle sandboxes away and take no more."""
        with self._changed:
            self._closed = True
            self._wake()
        self._cancel.cancel()
        if self._thread is not None:
            self._thread.join(_POOL_CLOSE_SECONDS)
        with self._changed:
            shelves, self._shelves = self._shelves, {}
        for shelf in shelves.values():
            for entry in shelf.idle:
                entry.sandbox.channel.close()

    def _shelf_for(self, spec: SandboxSpec, waiting: str) -> _Shelf | None:
        """The shelf of this spec's kind, which is wanted now; None if there is no pool."""
        if self._closed or not self._settings.most:
            return None
        kind = self._kind_of(spec, waiting)
        shelf = self._shelves.setdefault(kind, _Shelf(kind))
        shelf.wanted_at = time.monotonic()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, name="run-code-pool", daemon=True
            )
            self._thread.start()
        return shelf

    def _alike(self, shelf: _Shelf) -> list[_Shelf]:
        """The other shelves whose sandboxes differ in the interpreter only."""
        return [
            other
            for other in self._shelves.values()
            if other is not shelf and _cold(other.spec) == _cold(shelf.spec)
        ]

    def _kind_of(self, spec: SandboxSpec, waiting: str) -> SandboxSpec:
        """What two specs have in common when one sandbox would do for both."""
        return replace(
            spec,
            run_id="",
            expires_at=0.0,
            limits=spec.limits.shape(),
            waiting=waiting,
            preload=self._settings.preload if waiting == "python" else (),
        )

    def _wake(self) -> None:
        self._woken = True
        self._changed.notify()

    def _count(self) -> int:
        return sum(len(shelf.idle) for shelf in self._shelves.values())

    # --- the pool's own thread ---------------------------------------------------------

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._woken, _TIDY_SECONDS)
                self._woken = False
                if self._closed:
                    return
            self._tidy()
            spec = self._missing()
            while spec is not None and self._make(spec):
                spec = self._missing()

    def _tidy(self) -> None:
        """Throw away what is dead, old, or of a kind that nobody wants any more."""
        now = time.monotonic()
        discarded: list[_Idle] = []
        with self._changed:
            for kind, shelf in list(self._shelves.items()):
                wanted = now - shelf.wanted_at < self._settings.idle_seconds
                kept = deque(
                    entry for entry in shelf.idle if wanted and _is_usable(entry)
                )
                discarded += [entry for entry in shelf.idle if entry not in kept]
                shelf.idle = kept
                if not wanted:
                    del self._shelves[kind]
        for entry in discarded:
            entry.sandbox.channel.close()

    def _missing(self) -> SandboxSpec | None:
        """The kind to make next: the one asked for last that has too few. When the budget
        is used up, the kind that was asked for longest ago gives one up for it."""
        with self._changed:
            now = time.monotonic()
            if self._closed or now < self._next_try or self._is_crowded(now):
                return None
            by_age = sorted(self._shelves.values(), key=lambda shelf: shelf.wanted_at)
            lacking = [
                shelf for shelf in by_age if len(shelf.idle) < self._settings.size
            ]
            if not lacking:
                return None
            given_up: _Idle | None = None
            if self._count() >= self._settings.most:
                oldest = next(shelf for shelf in by_age if shelf.idle)
                if oldest.wanted_at >= lacking[-1].wanted_at:
                    return None
                given_up = oldest.idle.popleft()
        if given_up is not None:
            given_up.sandbox.channel.close()
        return lacking[-1].spec

    def _is_crowded(self, now: float) -> bool:
        recent = now - self._made_at < _CROWDED_SECONDS
        return recent and self._runs >= self._processors

    def _make(self, kind: SandboxSpec) -> bool:
        """Boot one and put it on its shelf. False after a failure, which makes us pause."""
        started = time.monotonic()
        spec = replace(
            kind,
            run_id=f"idle-{new_run_id()}",
            expires_at=time.time() + _OLDEST_SECONDS + _LONGEST_RUN_SECONDS,
        )
        try:
            sandbox = boot_sandbox(
                self._engine, spec, self._cancel, Deadline(_BOOT_SECONDS)
            )
        except Exception as error:  # whatever it was, the thread lives on
            self._note_failure(error)
            return False
        now = time.monotonic()
        with self._changed:
            shelf = self._shelves.get(kind)
            kept = shelf is not None and not self._closed
            if shelf is not None and kept:
                shelf.idle.append(_Idle(sandbox, now))
            self._pause = 0.0
            self._made_at = now
            self._stats = replace(
                self._stats,
                refills=self._stats.refills + 1,
                refill_seconds=now - started,
            )
        if not kept:
            sandbox.channel.close()
        return kept

    def _note_failure(self, error: Exception) -> None:
        with self._changed:
            if self._closed:
                return
            self._pause = min(_LONGEST_PAUSE, 2 * self._pause or _FIRST_PAUSE)
            self._next_try = time.monotonic() + self._pause
            self._stats = replace(self._stats, failures=self._stats.failures + 1)
        _pool_log.warning(
            "no sandbox could be made ahead, next try in %d s: %s (%s)",
            self._pause,
            error,
            getattr(error, "detail", ""),
            exc_info=None if isinstance(error, SandboxError) else error,
        )


def _cold(kind: SandboxSpec) -> SandboxSpec:
    return replace(kind, waiting="", preload=())


def _is_usable(entry: _Idle) -> bool:
    """Not too old, and its guest is there: a dead one has an end of stream to read."""
    if time.monotonic() - entry.made_at > _OLDEST_SECONDS:
        return False
    return entry.sandbox.channel.recv(0.0) is None


# ===== end sandbox_core/pool.py =====

# ===== begin sandbox_core/event_feed.py =====

"""Events on their way from a run to whoever watches it, who may be slow or asleep."""

_feed_log = logging.getLogger("run_code.event_feed")
_CAP_CHARACTERS = 1 << 18
_CLOSE_SECONDS = 2.0


class EventFeed:
    """Calls ``on_event`` in a thread of its own; putting never waits for it.

    Texts of one stream that wait are merged. While more than 256 Ki characters wait, further
    text is dropped: the result holds it, the watcher only wants to see something move. One
    that raises is told no more.
    """

    def __init__(self, on_event: OnEvent | None) -> None:
        self._on_event = on_event
        self._waiting: deque[RunEvent] = deque()
        self._characters = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def put(self, event: RunEvent) -> None:
        """Hand over an event. Never blocks."""
        if self._on_event is None:
            return
        with self._changed:
            if self._characters + len(event.text) > _CAP_CHARACTERS:
                return
            self._characters += len(event.text)
            last = self._waiting[-1] if self._waiting else None
            if (
                last
                and event.kind == last.kind == "text"
                and event.stream == last.stream
            ):
                self._waiting.pop()
                merged = last.text + event.text
                event = RunEvent("text", event.step, event.stream, merged)
            self._waiting.append(event)
            self._changed.notify()
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._deliver, name="run-code-events", daemon=True
            )
            self._thread.start()

    def close(self) -> None:
        """Let the watcher have what waits, for at most two seconds."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(_CLOSE_SECONDS)
        with self._changed:
            self._waiting.clear()

    def _deliver(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closed:
                    self._changed.wait()
                if not self._waiting:
                    return
                event = self._waiting.popleft()
                self._characters -= len(event.text)
            if self._on_event is not None and not self._tell(self._on_event, event):
                return

    def _tell(self, on_event: OnEvent, event: RunEvent) -> bool:
        try:
            on_event(event)
        except Exception:
            _feed_log.exception("whoever watched a run failed, and sees no more of it")
            self._on_event = None
        return self._on_event is not None


# ===== end sandbox_core/event_feed.py =====

# ===== begin sandbox_core/recorder.py =====

"""What one run has told us so far: frames in, a RunResult out. No engine, no clock."""

_STREAMS = {"o": "stdout", "e": "stderr"}
_OF_A_STEP = "ncsx!"
_NO_HELLO = {"kernel": ""}
_MOST_SKIPPED = 200
_LONGEST_REASON = 200
_LONGEST_KERNEL = 200
_HIGHEST_CODE = 255
_NOT_FOUND = 127  # as a shell says it
_HIGHEST_SIGNAL = 64
_MOST_SECONDS = 1e6
_MOST_DIGITS = 9
_FLAGS = (
    "cancelled",
    "timed_out",
    "memory_killed",
    "output_capped",
    "processes_killed",
    "processes_full",
    "disk_full",
)


@dataclass(slots=True)
class _StepEnd:
    step: int
    exit_code: int | None
    signal: int | None
    compiling: bool = False
    missing: bool = False


class Recorder:
    """Takes the guest's frames in order and checks that their order makes sense.

    ``hello`` is the guest's description of its kernel; ``started``, ``program_over`` and
    ``done`` are the milestones that the runner's budgets hang on.
    """

    def __init__(self, request: RunRequest, feed: EventFeed) -> None:
        limits = request.limits
        self.hello: dict[str, Any] | None = None
        self.started = False
        self.program_over = False
        self.done = False
        self._seconds: float | None = (
            None  # of the programs, as the guest tells at the end
        )
        self._watched_seconds = 0.0  # the same as it looks from here
        self._running_since = 0.0
        self._request = request
        self._feed = feed
        self._step = 0
        self._running = False
        self._compiling = False
        self._last: _StepEnd | None = None
        self._cleaners = {stream: TextCleaner() for stream in _STREAMS.values()}
        self._transcript = Transcript(limits.kept_output_kib * 1024)
        self._spool = OutputSpool(min(limits.output_mib, limits.file_mib) << 20)
        self._output_left = limits.output_mib << 20
        self._files = FileReceiver(limits)
        self._displays = FileReceiver(DISPLAY_LIMITS)
        self._receiver = self._files
        self._skipped: list[SkippedFile] = []
        self._value: str | None = None
        self._flags: dict[str, bool] = {}

    @property
    def ended_suspiciously(self) -> bool:
        """Whether the end of the last step looks like the work of the OOM killer."""
        last = self._last
        return last is not None and (last.signal == SIGKILL or last.exit_code == 1)

    def take(self, kind: str, untrusted_payload: bytes) -> None:
        """One frame. Raises ProtocolError when it does not belong here."""
        if self.done or (self.hello is None and kind != "h"):
            _breach(f"{kind} out of turn")
        if kind in _STREAMS:
            self._take_output(_STREAMS[kind], untrusted_payload)
        elif kind in _OF_A_STEP:
            self._take_step_header(kind, untrusted_payload)
        elif self._running:
            _breach(f"{kind} while a program runs")
        elif kind == "d":
            self._receiver.data(untrusted_payload)
        else:
            self._take_header(kind, untrusted_payload)

    def _take_output(self, stream: str, untrusted_data: bytes) -> None:
        self._output_left -= len(untrusted_data)
        if self._output_left < 0 or not self._running:
            _breach("output above its cap, or of no program")
        self._add_text(stream, self._cleaners[stream].feed(untrusted_data))

    def _add_text(self, stream: str, text: str) -> None:
        if text:
            self._transcript.add(stream, text)
            self._spool.add(text)
            self._feed.put(RunEvent("text", self._step, stream, text))

    def _take_step_header(self, kind: str, untrusted_payload: bytes) -> None:
        if kind in "cs":
            self._take_started(kind, untrusted_payload)
        elif kind == "x":
            self._take_step_end(untrusted_payload)
        elif kind == "n":
            self._take_missing(untrusted_payload)
        else:
            reason = parse_header(untrusted_payload, {"reason": str})["reason"]
            raise ProtocolError(
                "The sandbox could not run this. Try again; if it stays, tell your "
                "administrator.",
                clean_text(reason[:_LONGEST_REASON]),
            )

    def _take_header(self, kind: str, untrusted_payload: bytes) -> None:
        if kind == "h":
            self._take_hello(untrusted_payload)
        elif kind == "v":
            self._take_value(untrusted_payload)
        elif kind in ("f", "p"):
            self._begin_file(kind, untrusted_payload)
        elif kind == "q":
            self._receiver.end()
        elif kind == "k":
            self._take_skipped(untrusted_payload)
        else:
            self._take_done(untrusted_payload)

    def _begin_file(self, kind: str, untrusted_payload: bytes) -> None:
        if self._receiver.is_open:
            _breach("a file within a file")
        self._receiver = self._files if kind == "f" else self._displays
        self._receiver.begin(parse_header(untrusted_payload, {"name": str})["name"])

    def _take_hello(self, untrusted_payload: bytes) -> None:
        if self.hello is not None:
            _breach("a second hello")
        self.hello = parse_header(untrusted_payload, {"gvisor": bool, "kernel": str})

    def _take_value(self, untrusted_payload: bytes) -> None:
        """The launcher's note of a value is a file that the program may spoil: a broken one
        is no value, and no breach."""
        try:
            text = parse_header(untrusted_payload, {"text": str})["text"]
        except ProtocolError:
            return
        self._value = clean_text(text)

    def _take_started(self, kind: str, untrusted_payload: bytes) -> None:
        """A compiler (c) or a program (s) starts; a program may follow its compiler."""
        follows = self._compiling and kind == "s"
        step = self._next_step(untrusted_payload, self._running and not follows)
        if not follows:
            self._feed.put(RunEvent("started", step))
        self._step, self._running, self._compiling = step, True, kind == "c"
        self._running_since = time.monotonic()
        self.started = True

    def _take_missing(self, untrusted_payload: bytes) -> None:
        """Nothing was started: the image has not what the language of this step needs."""
        step = self._next_step(untrusted_payload, self._running)
        self._step = step
        self._last = _StepEnd(step, _NOT_FOUND, None, missing=True)
        self.started = self.program_over = True

    def _next_step(self, untrusted_payload: bytes, is_busy: bool) -> int:
        step: int = parse_header(untrusted_payload, {"step": int})["step"]
        expected = 0 if self._last is None else self._last.step + 1
        if is_busy or self.program_over or step != expected:
            _breach(f"start of step {step}")
        return step

    def _take_step_end(self, untrusted_payload: bytes) -> None:
        optional = (int, type(None))
        end = parse_header(
            untrusted_payload, {"step": int, "exit_code": optional, "signal": optional}
        )
        code, number = end["exit_code"], end["signal"]
        fits = (
            0 <= code <= _HIGHEST_CODE and number is None
            if code is not None
            else number is not None and 1 <= number <= _HIGHEST_SIGNAL
        )
        if not self._running or end["step"] != self._step or not fits:
            _breach("end of a step")
        self._last = _StepEnd(self._step, code, number, self._compiling)
        self._stop_watch()
        self._running = self._compiling = False
        is_last = self._step == len(self._request.steps) - 1
        self.program_over = is_last or code != 0

    def _stop_watch(self) -> None:
        if self._running and not self._compiling:
            self._watched_seconds += time.monotonic() - self._running_since

    def _take_skipped(self, untrusted_payload: bytes) -> None:
        entry = parse_header(untrusted_payload, {"name": str, "reason": str})
        if len(self._skipped) < _MOST_SKIPPED:
            name = safe_output_name(entry["name"]) if entry["name"] else ""
            reason = clean_text(entry["reason"][:_LONGEST_REASON])
            self._skipped.append(SkippedFile(name, reason))

    def _take_done(self, untrusted_payload: bytes) -> None:
        types = dict.fromkeys(_FLAGS, bool) | {"seconds": (int, float)}
        values = parse_header(untrusted_payload, types)
        seconds = values.pop("seconds")
        if not 0 <= seconds <= _MOST_SECONDS:
            _breach("seconds out of range")
        if not (self.program_over or values["cancelled"]):
            _breach("an end before that of the programs")
        self._seconds = float(seconds)
        self._flags = values
        self.done = self.program_over = True

    def result(self, host: Evidence, facts: dict[str, str]) -> RunResult:
        """The result of the run: what was told here, joined with what the host saw.

        ``host`` carries error, cancelled, timed_out and oom; ``facts`` goes into evidence.
        """
        for stream, cleaner in self._cleaners.items():
            self._add_text(stream, cleaner.finish())
        stdout, stderr, output = self._transcript.finish()
        last = self._last
        if not self.program_over:
            self._stop_watch()
        told: dict[str, Any] = {
            flag: value or getattr(host, flag) for flag, value in self._flags.items()
        }
        seen = replace(
            host,
            done=self.done,
            exit_code=last.exit_code if last else None,
            signal=last.signal if last else None,
            compiling=self._compiling or bool(last and last.compiling),
            error_line=self._error_line(str(stderr)),
            missing=self._missing(),
            **told,
        )
        outcome = classify(seen)
        limits = self._request.limits
        files = self._files.complete_files()
        went_wrong = outcome is not Outcome.OK and last is not None
        return RunResult(
            run_id=self._request.run_id,
            outcome=outcome,
            message=describe_outcome(outcome, seen, limits),
            exit_code=seen.exit_code,
            signal=seen.signal,
            stdout=stdout,
            stderr=stderr,
            output=output,
            value=self._value,
            files=files,
            displays=name_displays(self._displays.complete_files(), files),
            skipped=(*self._skipped, *self._files.lost_files()),
            full_output=self._spool.finish(),
            notes=_notes(outcome, seen, self._request),
            seconds=self._watched_seconds if self._seconds is None else self._seconds,
            failed_step=last.step if last and went_wrong else None,
            evidence={
                **facts,
                "kernel": clean_text(
                    (self.hello or _NO_HELLO)["kernel"][:_LONGEST_KERNEL]
                ),
            },
        )

    def _error_line(self, stderr: str) -> int | None:
        """The first line of the program that its compiler names."""
        language = language_named(self._request.steps[self._step].language)
        if not language.line_reference or not language.compile_argv:
            return None
        found = re.search(language.line_reference, stderr)
        return int(found[1][:_MOST_DIGITS]) if found else None

    def _missing(self) -> str:
        """Which language the image does not have, if that is why the last step ended."""
        if self._last is None or not self._last.missing:
            return ""
        language = language_named(self._request.steps[self._last.step].language)
        has_it = f"The image {language.image} has it: ask" if language.image else "Ask"
        return (
            f"there is no {language.title} in this sandbox. {has_it} your administrator, or "
            "use another language"
        )


def _breach(detail: str) -> NoReturn:
    raise ProtocolError("The sandbox sent a broken message.", detail)


def _notes(outcome: Outcome, seen: Evidence, request: RunRequest) -> tuple[str, ...]:
    """Walls that the program touched and survived."""
    if outcome is not Outcome.OK:
        return ()
    limits = request.limits
    notes = []
    if seen.processes_full:
        notes.append(f"The program touched the limit of {limits.processes} processes.")
    if seen.disk_full:
        notes.append(
            f"A folder was full at the end: the work folder holds {limits.work_mib} MB, "
            f"/tmp {limits.tmp_mib} MB."
        )
    if seen.oom:
        notes.append("A process of the program was stopped for want of memory.")
    return tuple(notes)


# ===== end sandbox_core/recorder.py =====

# ===== begin sandbox_core/runner.py =====

"""Runs requests: the one place that knows the order of things, the budgets and the ladder
from asking a sandbox to end to ending it.
"""

_LOG = logging.getLogger("run_code.runner")
_POLL_SECONDS = 0.1
_BYTES_PER_SECOND = 5 << 20
_DISPOSERS = 4
# To remove a sandbox and to boot the next takes all that a small machine has. So long a result
# has to get to whoever waits for it.
_HANDOVER_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Budgets:
    """Seconds for each phase of a run; tests set them lower.

    ``transfer`` is what an upload or download may take on top of its bytes at 5 MB/s;
    ``overtime`` is how long after the program's limit the guest may still be heard of;
    ``farewell`` is how long a cancelled run may take to hand over what it has.
    """

    start: float = 15.0
    transfer: float = 10.0
    overtime: float = 2.0
    collection: float = 5.0
    farewell: float = 1.0

    def lease_seconds(self, limits: Limits, compiling: float = 0.0) -> float:
        """After this time a run with these limits is over, whatever happened; ``compiling`` is
        what its compilers may take."""
        transfers = self.transfer + (limits.work_mib << 20) / _BYTES_PER_SECOND
        rest = limits.seconds + compiling + self.overtime + self.collection
        return self.start + 2 * transfers + rest


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a request runs: in a sandbox of this spec, with an archive of packages if there is
    one. ``booted`` is one that was started for it already."""

    spec: SandboxSpec
    packages: InputFile | None = None
    booted: BootedSandbox | None = None


class Runner(Protocol):
    """Whatever can run a request: a local engine, or a service over HTTP."""

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """Run to the end and return the result, also of a failure; never raises for what a
        sandbox or an engine does. Raises InvalidRequest when the request breaks a rule.
        """

    def close(self) -> None:
        """End what is left of finished runs. Called once, when no run is under way."""


class LocalRunner:
    """Runs each request in a fresh sandbox of an engine, in the calling thread."""

    def __init__(
        self,
        engine: Engine,
        image: str,
        runtime: str = "runsc",
        budgets: Budgets | None = None,
        pool: PoolSettings | None = None,
        data_folders: DataFolders | None = None,
    ) -> None:
        self._engine = engine
        self._data_folders = data_folders or DataFolders()
        self._pool = WarmPool(engine, pool or PoolSettings(size=0))
        self._image = image
        self._runtime = runtime
        self._budgets = budgets or Budgets()
        # A result need not wait until its container is removed (about 0.1 s).
        self._disposer = ThreadPoolExecutor(_DISPOSERS, "run-code-dispose")
        self._closing = threading.Event()

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """See Runner.run."""
        started = time.monotonic()
        placement = Placement(self.spec_for(request))
        result = self.run_placed(request, placement, on_event, cancel or CancelToken())
        return replace(result, total_seconds=time.monotonic() - started)

    def run_placed(
        self,
        request: RunRequest,
        placement: Placement,
        on_event: OnEvent | None,
        cancel: CancelToken,
    ) -> RunResult:
        """Run to the end in this place. Raises as run does."""
        plan = plan_files(request)
        spec, booted = placement.spec, placement.booted
        is_usual = not (spec.network or spec.packages_mib)
        feed = EventFeed(on_event)
        session = _Session(
            request, plan, feed, cancel, self._budgets, placement.packages
        )
        self._pool.begin_run()
        try:
            if booted is None and is_usual:
                booted = self._pool.take(spec, interpreter_for(request))
            return session.run(self._engine, spec, booted)
        finally:
            feed.close()
            try:
                self._disposer.submit(self._clear_up, session.channels)
            except RuntimeError:  # closed during the run
                self._clear_up(session.channels)

    def close_pool(self) -> None:
        """Throw away the idle sandboxes; runs go on, and start cold from now on."""
        self._pool.close()

    def close(self) -> None:
        """See Runner.close."""
        self._closing.set()
        self._pool.close()
        self._disposer.shutdown(wait=True)

    def prepare(self, request: RunRequest) -> bool:
        """Have a warm sandbox made for requests like this one; True if one is ready."""
        return self._pool.want(self.spec_for(request), interpreter_for(request))

    def pool_stats(self) -> PoolStats:
        """How the pool of warm sandboxes has done so far."""
        return self._pool.stats()

    def spec_for(self, request: RunRequest) -> SandboxSpec:
        """The usual sandbox for a request."""
        lease = self._budgets.lease_seconds(request.limits, compile_budget(request))
        return SandboxSpec(
            image=self._image,
            runtime=self._runtime,
            limits=request.limits,
            run_id=request.run_id,
            owner=current_owner(),
            expires_at=time.time() + lease,
            argv=tuple(bootstrap_argv()),
            data_folders=self._data_folders.checked(),
        )

    def boot(self, spec: SandboxSpec, cancel: CancelToken) -> BootedSandbox:
        """A sandbox of this spec, for a later run_placed. Raises as boot_sandbox does."""
        return boot_sandbox(self._engine, spec, cancel, Deadline(self._budgets.start))

    def _clear_up(self, channels: Sequence[Channel]) -> None:
        """Remove the sandboxes of an ended run, and let the pool make new ones."""
        self._closing.wait(_HANDOVER_SECONDS)
        for channel in channels:
            try:
                channel.close()
            except Exception as error:
                _LOG.error("a sandbox could not be removed: %r", error)
        self._pool.end_run()


class _Session:
    """One run of one request, from start to result."""

    def __init__(
        self,
        request: RunRequest,
        plan: InputPlan,
        feed: EventFeed,
        cancel: CancelToken,
        budgets: Budgets,
        packages: InputFile | None = None,
    ) -> None:
        self._packages = packages
        self.channels: list[Channel] = []
        self._request = request
        self._plan = plan
        self._cancel = cancel
        self._budgets = budgets
        self._feed = feed
        self._reader = FrameReader()
        self._recorder = Recorder(request, feed)
        self._timed_out = False
        self._farewell: Deadline | None = None

    @property
    def _channel(self) -> Channel | None:
        return self.channels[-1] if self.channels else None

    def run(
        self, engine: Engine, spec: SandboxSpec, booted: BootedSandbox | None
    ) -> RunResult:
        """Go through the phases; whatever goes wrong ends in the result."""
        error = ""
        facts = {"engine": engine.name, "image": spec.image, "runtime": spec.runtime}
        try:
            sandbox = self._hand_over(engine, spec, booted)
            facts["warm"] = "yes" if sandbox.waiting else "no"
            self._follow()
        except SandboxError as problem:
            if not self._cancel.is_set():
                error = self._explain(problem)
        return self._recorder.result(self._host_evidence(error), facts)

    def _hand_over(
        self, engine: Engine, spec: SandboxSpec, booted: BootedSandbox | None
    ) -> BootedSandbox:
        """Give the job to the booted sandbox, or else to one that is started for it. Returns
        the one in which a program has started."""
        if booted is not None:
            try:
                self._give_job(booted)
                return booted
            except ChannelClosed:
                if self._recorder.started or self._cancel.is_set():
                    raise
                _LOG.info("run %s: its booted sandbox was dead", spec.run_id)
        cold = boot_sandbox(engine, spec, self._cancel, Deadline(self._budgets.start))
        self._give_job(cold)
        return cold

    def _give_job(self, sandbox: BootedSandbox) -> None:
        channel = sandbox.channel
        self.channels.append(channel)
        self._reader = sandbox.reader
        self._recorder = Recorder(self._request, self._feed)
        self._recorder.take("h", sandbox.hello)
        size = sum(file.size for file in self._plan.files)
        size += len(self._request.stdin)
        size += self._packages.size if self._packages else 0
        upload = Deadline(self._budgets.transfer + size / _BYTES_PER_SECOND)
        lease_seconds = self._budgets.lease_seconds(
            self._request.limits, compile_budget(self._request)
        )
        frames = job_frames(
            self._request, self._plan, lease_seconds, sandbox.waiting, self._packages
        )
        for data in joined_frames(frames):
            if self._cancel.is_set():
                raise ChannelClosed("The run was stopped on request.")
            channel.send(data, upload)
        self._read_until(lambda: self._recorder.started or self._recorder.done, upload)

    def _follow(self) -> None:
        """From the start of the program to ``done``."""
        budgets, limits = self._budgets, self._request.limits
        compiling = compile_budget(self._request)
        program = Deadline(compiling + limits.seconds + budgets.overtime)
        if not self._read_until(
            lambda: self._recorder.program_over, program, late_is_error=False
        ):
            self._timed_out = True
            return
        rest = budgets.collection + budgets.transfer
        rest += (limits.work_mib << 20) / _BYTES_PER_SECOND
        self._read_until(lambda: self._recorder.done, Deadline(rest))

    def _read_until(
        self,
        reached: Callable[[], bool],
        deadline: Deadline,
        late_is_error: bool = True,
    ) -> bool:
        """Drain the channel until a milestone. Returns False when the time is up instead.

        Raises StartFailed when late_is_error, ChannelClosed at the end of the stream or of
        the farewell of a cancelled run, ProtocolError when the sandbox breaks the rules.
        """
        channel = self._channel
        while channel is not None and not reached():
            self._say_farewell(channel)
            if deadline.passed():
                if late_is_error:
                    raise StartFailed("The sandbox did not answer in time. Try again.")
                return False
            untrusted_data = channel.recv(min(_POLL_SECONDS, deadline.remaining()))
            if untrusted_data == b"":
                raise ChannelClosed(
                    "The sandbox ended unexpectedly. Try again; if it stays, tell your "
                    "administrator."
                )
            for kind, untrusted_payload in self._reader.feed(untrusted_data or b""):
                self._recorder.take(kind, untrusted_payload)
        return True

    def _say_farewell(self, channel: Channel) -> None:
        """When cancelled: ask the guest once to end and hand over, then lose patience."""
        if not self._cancel.is_set():
            return
        if self._farewell is None:
            self._farewell = Deadline(self._budgets.farewell)
            channel.send(encode_frame("C"), self._farewell)
        elif self._farewell.passed():
            raise ChannelClosed("The run was stopped on request.")

    def _explain(self, problem: SandboxError) -> str:
        problem.run_id = self._request.run_id
        level = logging.INFO if isinstance(problem, ChannelClosed) else logging.ERROR
        _LOG.log(level, "run %s: %s (%s)", problem.run_id, problem, problem.detail)
        return str(problem)

    def _host_evidence(self, error: str) -> Evidence:
        """What the host saw. A dead sandbox is looked into: its memory may have run out."""
        oom = False
        ended = None
        broken = error or self._timed_out
        channel = self._channel
        if channel is not None and broken:
            channel.kill()
        if channel is not None and (broken or self._recorder.ended_suspiciously):
            ended = channel.ended(Deadline(self._budgets.overtime))
            oom = bool(ended.oom)
        if ended is not None and ended.untrusted_diagnostics:
            _LOG.warning(
                "run %s: the sandbox said %r",
                self._request.run_id,
                ended.untrusted_diagnostics,
            )
        return Evidence(
            error="" if oom else error,
            cancelled=self._cancel.is_set(),
            timed_out=self._timed_out,
            oom=oom,
        )


# ===== end sandbox_core/runner.py =====

# ===== begin sandbox_core/installing_runner.py =====

"""A local runner that installs what a run asks for, before its first step and beside its time.

The sandbox of the program boots meanwhile: it is a cold one, whose start would be waited for.
"""

_install_log = logging.getLogger("run_code.install")
_IMAGE_SECONDS = 5.0
_NOTHING = Step(BASH.name, ":\n")
_BOOTS = 8  # at one time; one more waits, and boots late


class InstallingRunner(LocalRunner):
    """As LocalRunner. Without ``installs`` a request for packages fails with a sentence, and
    nothing is looked for in its code."""

    def __init__(
        self,
        engine: Engine,
        image: str,
        runtime: str = "runsc",
        installs: InstallSettings | None = None,
        pool: PoolSettings | None = None,
        data_folders: DataFolders | None = None,
    ) -> None:
        super().__init__(engine, image, runtime, None, pool, data_folders)
        self._installs = installs
        self._installer = (
            Installer(installs, self._run_installer, self._image_id)
            if installs
            else None
        )
        self._booter = ThreadPoolExecutor(_BOOTS, "run-code-boot")

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """See Runner.run."""
        plan_files(request)
        cancel = cancel or CancelToken()
        started = time.monotonic()
        booting: Future[BootedSandbox] | None = None
        try:
            wanted = self._gather(request)
            if self._installer is None or not wanted.packages:
                return self._marked(super().run(wanted, on_event, cancel), request)
            missing = self._installer.missing(wanted.packages, cancel)
            archive = self._installer.kept(missing)
            if archive is None:
                booting = self._boot_ahead(wanted, cancel)
                archive = self._installer.fetch(missing, cancel)
        except (InstallFailed, InvalidRequest) as problem:
            _discard(booting)
            return _not_installed(request, problem, cancel, started)
        result = self._run_with(archive, booting, wanted, on_event, cancel)
        result = replace(result, total_seconds=time.monotonic() - started)
        return self._marked(result, request)

    def _marked(self, result: RunResult, request: RunRequest) -> RunResult:
        """With a word on packages, for whoever gives advice."""
        if not self._may_install(request):
            return result
        return replace(result, evidence={**result.evidence, PACKAGES_ON: "yes"})

    def close(self) -> None:
        """See Runner.close."""
        if self._installer is not None:
            self._installer.close()
        self._booter.shutdown(wait=True)
        super().close()

    def _boot_ahead(
        self, request: RunRequest, cancel: CancelToken
    ) -> Future[BootedSandbox] | None:
        """Start the sandbox of a program whose packages are not there yet."""
        if self._installer is None or reaches_out(request.network):
            return None  # with a network, its route comes first
        spec = self._spec_with_packages(request)
        waits = self._budgets.lease_seconds(self._installer.limits)
        spec = replace(spec, expires_at=spec.expires_at + waits)
        return self._booter.submit(self.boot, spec, cancel)

    def _run_with(
        self,
        archive: Archive,
        booting: Future[BootedSandbox] | None,
        request: RunRequest,
        on_event: OnEvent | None,
        cancel: CancelToken,
    ) -> RunResult:
        """Run a request whose packages are installed; steps that did nothing else are over."""
        skipped = _empty_steps(request)
        short = replace(request, steps=request.steps[skipped:] or (_NOTHING,))
        content = archive.opened()
        if content is None:
            _discard(booting)
            place = Placement(self.spec_for(request))
        else:
            packages = InputFile("packages", content=content)
            spec = self._spec_with_packages(request)
            place = Placement(spec, packages, _booted(booting))
        try:
            result = self.run_placed(short, place, on_event, cancel)
        finally:
            if content is not None:
                content.close()
        if result.failed_step is not None:
            result = replace(result, failed_step=result.failed_step + skipped)
        names = ", ".join(archive.names)
        notes = (f"Installed for this run: {names}.",) if names else ()
        return replace(result, notes=(*notes, *result.notes))

    def _spec_with_packages(self, request: RunRequest) -> SandboxSpec:
        """The usual sandbox with a folder for packages."""
        spec = self.spec_for(request)
        if self._installs is None:
            return spec
        # The archive is there until it is unpacked.
        return replace(spec, packages_mib=2 * self._installs.size_mib)

    def _may_install(self, request: RunRequest) -> bool:
        return self._installer is not None and request.network != NO_NETWORK

    def _gather(self, request: RunRequest) -> RunRequest:
        if self._may_install(request):
            return gather_packages(request)
        if request.packages:
            raise InvalidRequest(PACKAGES_OFF)
        return request

    def _run_installer(
        self, request: RunRequest, with_network: bool, cancel: CancelToken
    ) -> RunResult:
        spec = self.spec_for(request)
        if with_network and self._installs is not None:
            spec = replace(
                spec, network=self._installs.network, runtime=self._installs.runtime
            )
        return self.run_placed(request, Placement(spec), None, cancel)

    def _image_id(self) -> str:
        return self._engine.image_id(Deadline(_IMAGE_SECONDS)) or self._image


def _booted(booting: Future[BootedSandbox] | None) -> BootedSandbox | None:
    """The sandbox; None when it did not start: the run starts one, and tells if it cannot."""
    try:
        return booting.result() if booting else None
    except SandboxError as error:
        _install_log.info("a sandbox could not be started ahead: %s", error)
        return None


def _discard(booting: Future[BootedSandbox] | None) -> None:
    """Nobody needs this sandbox; it may not even be there yet."""
    if booting is not None:
        booting.add_done_callback(_close_booted)


def _close_booted(booting: Future[BootedSandbox]) -> None:
    if booting.exception() is None:
        booting.result().channel.close()


def _empty_steps(request: RunRequest) -> int:
    """How many steps at the beginning have nothing left to run."""
    count = 0
    for step in request.steps:
        lines = (line.strip() for line in step.code.split("\n"))
        if any(line and not line.startswith("#") for line in lines):
            break
        count += 1
    return count


def _not_installed(
    request: RunRequest, problem: SandboxError, cancel: CancelToken, started: float
) -> RunResult:
    """The result of a run that ended before its first step."""
    seconds = time.monotonic() - started
    if cancel.is_set():
        message = "The run was stopped on request."
        return RunResult(
            request.run_id, Outcome.CANCELLED, message, total_seconds=seconds
        )
    _install_log.info("run %s: %s (%s)", request.run_id, problem, problem.detail)
    return RunResult(
        request.run_id,
        Outcome.FAILED,
        str(problem),
        exit_code=1,
        failed_step=0,
        total_seconds=seconds,
    )


# ===== end sandbox_core/installing_runner.py =====

# ===== begin sandbox_core/network_runner.py =====

"""A local runner that gives each run the network that it may have: packages before its program,
a way out during it, or nothing at all."""

_network_log = logging.getLogger("run_code.network")
_ROUTE_SECONDS = 15.0
_NO_WAY = (
    "No proxy is named for the mode {mode}, so nothing was run. An administrator should set "
    "it up (docs/network.md)."
)


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """``mode`` is one of NETWORK_MODES and the most that any run gets; ``installs`` and
    ``egress`` say how, where the mode needs it."""

    mode: str = NO_NETWORK
    installs: InstallSettings | None = None
    egress: EgressSettings | None = None


class NetworkRunner(InstallingRunner):
    """As LocalRunner. A request may ask for less than the settings allow, never for more."""

    def __init__(
        self,
        engine: Engine,
        image: str,
        runtime: str = "runsc",
        network: NetworkSettings | None = None,
        pool: PoolSettings | None = None,
        data_folders: DataFolders | None = None,
    ) -> None:
        self._network = network or NetworkSettings()
        installs = self._network.installs
        super().__init__(engine, image, runtime, installs, pool, data_folders)

    @property
    def mode(self) -> str:
        """The most that any run gets."""
        return self._network.mode

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """See Runner.run."""
        mode = lower_mode(self._network.mode, request.network)
        result = super().run(replace(request, network=mode), on_event, cancel)
        return replace(result, evidence={**result.evidence, NETWORK: mode})

    def run_placed(
        self,
        request: RunRequest,
        placement: Placement,
        on_event: OnEvent | None,
        cancel: CancelToken,
    ) -> RunResult:
        """See LocalRunner.run_placed."""
        spec = placement.spec
        if spec.network or not reaches_out(request.network):
            return super().run_placed(request, placement, on_event, cancel)
        started = time.monotonic()
        try:
            route, runtime = self._open_route(request, spec)
        except SandboxError as problem:
            _network_log.error("run %s: %s (%s)", spec.run_id, problem, problem.detail)
            seconds = time.monotonic() - started
            return RunResult(
                request.run_id,
                Outcome.SANDBOX_ERROR,
                str(problem),
                total_seconds=seconds,
            )
        spec = replace(spec, network=route.network, proxy=route.proxy, runtime=runtime)
        try:
            placement = replace(placement, spec=spec)
            return super().run_placed(request, placement, on_event, cancel)
        finally:
            future = self._disposer.submit(self._engine.close_route, route)
            future.add_done_callback(_log_failed_close)

    def _open_route(self, request: RunRequest, spec: SandboxSpec) -> tuple[Route, str]:
        way = self._network.egress
        if way is None:
            raise EngineError(_NO_WAY.format(mode=request.network))
        route = self._engine.open_route(
            way,
            request.network,
            spec.run_id,
            spec.owner,
            spec.expires_at,
            Deadline(_ROUTE_SECONDS),
        )
        return route, way.runtime


def _log_failed_close(future: Future[None]) -> None:
    error = future.exception()
    if error is not None:
        _network_log.error("a network of a run could not be removed: %r", error)


# ===== end sandbox_core/network_runner.py =====

# ===== begin owui_plugin/settings.py =====

"""Settings of the plugins: Open WebUI's valves, and the environment, which wins.

A valve is checked by pydantic when an administrator saves it. A variable of the environment
is checked when it is used: an error while the plugin loads would make Open WebUI switch the
plugin off, and nobody would read why.
"""

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

# ===== end owui_plugin/settings.py =====

# ===== begin sandbox_core/inventory.py =====

"""What an image has: its languages with their versions, and Python's packages. A sandbox of it
is asked, once for each image."""

_SECONDS = 60.0
_MOST_PACKAGES = 5000
_LONGEST_WORD = 100
_PROGRAM = """\
import concurrent.futures, importlib.metadata, json, re, shutil, subprocess

COMMANDS = {commands!r}


def version_of(argv):
    if shutil.which(argv[0]) is None:
        return None
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    found = re.search(r"\\d+(?:\\.\\d+)+", done.stdout + done.stderr)
    return found[0] if found else ""


with concurrent.futures.ThreadPoolExecutor(2) as pool:
    versions = dict(zip(COMMANDS, pool.map(version_of, COMMANDS.values())))
packages = {{
    entry.metadata["Name"]: entry.version
    for entry in importlib.metadata.distributions()
    if entry.metadata["Name"]
}}
languages = {{name: text for name, text in versions.items() if text is not None}}
print(json.dumps({{"languages": languages, "packages": packages}}))
"""


class InventoryFailed(SandboxError):
    """What is in the image could not be told; the message says why."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Versions by name: of the languages that the image has, and of Python's packages. A
    version is empty where it could not be told."""

    languages: dict[str, str]
    packages: dict[str, str]


def inventory_request(user: str = "", chat: str = "") -> RunRequest:
    """The run that asks."""
    commands = {entry.name: list(entry.version_argv) for entry in known_languages()}
    program = _PROGRAM.format(commands=commands)
    limits = Limits(seconds=_SECONDS)
    return RunRequest(
        (Step(PYTHON.name, program),),
        limits=limits,
        user=user,
        chat=chat,
        network=NO_NETWORK,
    )


def read_inventory(result: RunResult) -> Inventory:
    """What the run told. Raises InventoryFailed."""
    if result.outcome is not Outcome.OK:
        raise InventoryFailed(f"It could not be listed what there is. {result.message}")
    try:
        untrusted = json.loads(str(result.stdout))
        languages = _versions(untrusted["languages"])
        packages = _versions(untrusted["packages"])
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InventoryFailed(
            "It could not be listed what there is: the sandbox answered something else. Tell "
            "your administrator.",
            detail=repr(error),
        ) from error
    known = [entry.name for entry in known_languages() if entry.name in languages]
    return Inventory({name: languages[name] for name in known}, packages)


def _versions(untrusted: dict[str, str]) -> dict[str, str]:
    """Sorted by name, without regard to case."""
    pairs = sorted(untrusted.items(), key=lambda pair: pair[0].lower())
    return {_word(name): _word(version) for name, version in pairs[:_MOST_PACKAGES]}


def _word(untrusted: str) -> str:
    return " ".join(clean_text(untrusted[:_LONGEST_WORD]).split())


# ===== end sandbox_core/inventory.py =====

# ===== begin sandbox_core/doctor.py =====

"""Looks at a host and proves by running things that sandboxes work on it."""

_CHECK_SECONDS = 10.0
_PROOF_SECONDS = 8.0
_GONE_SECONDS = 5.0


def examine(
    engine: Engine,
    image: str,
    runtime: str,
    languages: Sequence[Language] | None = None,
    limits: Limits | None = None,
    accepted: Collection[str] = (),
) -> list[Finding]:
    """What is there and what is missing; when nothing is, proofs by doing. Never raises for
    what a host lacks. Takes some seconds: it starts a dozen sandboxes. ``languages`` are
    those of this image (all), and run within ``limits`` (the default ones); that limits bite is
    proven in Python. A finding that is named in ``accepted`` counts as well, and says so.
    """
    findings = engine.check(Deadline(_CHECK_SECONDS))
    if not all(finding.ok for finding in findings):
        return findings
    runner = LocalRunner(engine, image, runtime)
    try:
        findings += examine_runner(
            runner, engine, languages or known_languages(), limits or Limits()
        )
    finally:
        runner.close()
    return [_accept(finding, accepted) for finding in findings]


def examine_runner(
    runner: Runner, engine: Engine, languages: Sequence[Language], limits: Limits
) -> list[Finding]:
    """The proofs of examine(), with this runner over this engine."""
    findings: list[Finding] = []
    present = _present(runner, languages)
    for language in present:
        findings.append(_prove_language(runner, language, limits))
    if findings and not any(entry.ok for entry in findings) and engine.is_here:
        findings += machine_suspects(read_machine(), engine.name == "runsc")
    if len(present) < len(languages):
        findings.append(_absent(languages, present))
    if PYTHON in languages and all(finding.ok for finding in findings):
        findings += prove_limits(runner)
        findings.append(_prove_nothing_left(engine))
    return findings


def prove_limits(runner: Runner, cancel: CancelToken | None = None) -> list[Finding]:
    """One finding for each program that tries to break out of a limit. Those after a
    ``cancel`` mean nothing."""
    with _planted_file() as path:
        proofs = (*PROOFS, host_file_proof(path, _hosts()))
        return [_prove(runner, proof, cancel or CancelToken()) for proof in proofs]


def reasons_to_refuse(
    findings: Sequence[Finding], accepted: Collection[str]
) -> list[Finding]:
    """The limits that do not bite and that nobody has accepted by name."""
    return [
        finding
        for finding in findings
        if finding.name in PROOF_NAMES
        and not finding.ok
        and finding.name not in accepted
    ]


def _accept(finding: Finding, accepted: Collection[str]) -> Finding:
    if finding.ok or finding.name not in accepted:
        return finding
    text = f"{finding.text} An administrator has accepted this by name."
    return replace(finding, ok=True, text=text)


def _present(runner: Runner, languages: Sequence[Language]) -> list[Language]:
    """Those that the image has; all of them when it cannot be told."""
    try:
        found = read_inventory(runner.run(inventory_request())).languages
    except SandboxError:
        return list(languages)
    return [entry for entry in languages if entry.name in found]


def _absent(languages: Sequence[Language], present: Sequence[Language]) -> Finding:
    absent = [entry for entry in languages if entry not in present]
    titles = ", ".join(entry.title for entry in absent)
    images = ", ".join(sorted({entry.image for entry in absent if entry.image}))
    text = f"Not in this image: {titles}."
    if images:
        text += f" In the image {images} they are."
    return Finding("languages", True, text)


def _prove_language(runner: Runner, language: Language, limits: Limits) -> Finding:
    test = language.self_test
    steps = (Step(language.name, test.code),)
    result = runner.run(RunRequest(steps, limits=limits, network=NO_NETWORK))
    if result.outcome is Outcome.OK and str(result.stdout) == test.expected_stdout:
        kernel = " ".join(result.evidence.get("kernel", "").split()[:3])
        text = (
            f"{language.title} runs in gVisor ({kernel}, {result.total_seconds:.2f} s)."
        )
        return Finding(language.name, True, text)
    return Finding(
        language.name,
        False,
        f"{language.title} does not run: {_what_happened(result)}",
        "Build the image again (docs/setup.md, “The sandbox image”), and look at the log.",
        f"Code blocks in {language.title} would fail.",
    )


def _prove(runner: Runner, proof: Proof, cancel: CancelToken) -> Finding:
    limits = Limits().lowered(**({"seconds": _PROOF_SECONDS} | proof.limits))
    steps = (Step(PYTHON.name, proof.code),)
    request = RunRequest(steps, limits=limits, network=NO_NETWORK)
    result = runner.run(request, cancel=cancel)
    if proof.holds(result):
        return Finding(proof.name, True, f"{proof.title}. {result.message}".rstrip())
    text = f"Not proven: “{proof.title}”. What happened: {_what_happened(result)}"
    mend = (
        proof.mend or f"{runsc_upgrade_command(read_machine())}   # then run this again"
    )
    return Finding(proof.name, False, text, mend, proof.why)


def _prove_nothing_left(engine: Engine) -> Finding:
    name, deadline = "nothing-left", Deadline(_GONE_SECONDS)
    try:
        while left := _own_sandboxes(engine):
            if deadline.passed():
                return Finding(
                    name,
                    False,
                    f"{left} sandboxes of this check are still there after it.",
                    "run this again: what is left is removed when its lease ends",
                    "Otherwise each run costs the host memory for ever.",
                )
            time.sleep(0.1)
    except EngineError as error:
        return Finding(name, False, f"It cannot be told what is left: {error}")
    return Finding(name, True, "Nothing of these sandboxes is left.")


def _own_sandboxes(engine: Engine) -> int:
    owner = current_owner()
    return sum(
        lease.owner == owner and not lease.run_id.startswith("idle-")
        for lease in engine.leftovers()
    )


def _hosts() -> str:
    """What this machine calls others; empty when it cannot be read."""
    try:
        return Path("/etc/hosts").read_text("utf-8", "replace")
    except OSError:
        return ""


@contextmanager
def _planted_file() -> Iterator[str]:
    """A file that everybody on this machine can read; yields its path."""
    number, path = tempfile.mkstemp(prefix="run-code-planted-")
    try:
        with os.fdopen(number, "w") as file:
            file.write(secrets.token_hex())
        os.chmod(path, 0o644)
        yield path
    finally:
        with suppress(OSError):
            os.unlink(path)


def _what_happened(result: RunResult) -> str:
    return (
        result.message
        or f"outcome {result.outcome}, stdout {str(result.stdout)[:200]!r}"
    )


# ===== end sandbox_core/doctor.py =====

# ===== begin sandbox_core/network_proof.py =====

"""Proves that programs with a network reach the proxy, and nothing private through or past it."""

_LOOK_SECONDS = 20.0
_PROXY_PROGRAM = """\
import os, re, socket

proxy = re.search("//(.*):", os.environ["http_proxy"])[1]
places = ("10.0.0.1", "127.0.0.1", "169.254.169.254", "[fd00:ec2::254]")
requests = [f"GET http://{place}/ HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n" for place in places]
requests += [f"CONNECT {place}:443 HTTP/1.1\\r\\n\\r\\n" for place in places]
told = []
for request in requests:
    try:
        with socket.create_connection((proxy, 3128), 3) as link:
            link.settimeout(5)
            link.sendall(request.encode())
            told.append(link.recv(100).decode("latin-1").split(" ")[1])
    except (OSError, IndexError) as error:
        told.append(type(error).__name__)
try:
    socket.create_connection(("169.254.169.254", 80), 1).close()
    told.append("past")
except OSError:
    pass
print(*sorted(set(told)))
"""
_DENIED_STATUS = "403"
_PROXY_MEND = "docker logs run-code-egress   # and docs/network.md"
_PROXY_WHY = "Otherwise programs reach your internal services, or nothing at all."


def examine_network(runner: NetworkRunner) -> list[Finding]:
    """One finding on the way out that this runner gives; none where it gives none. Takes some
    seconds: it starts a sandbox."""
    if not reaches_out(runner.mode):
        return []
    limits = Limits(seconds=_LOOK_SECONDS)
    result = runner.run(RunRequest((Step(PYTHON.name, _PROXY_PROGRAM),), limits=limits))
    said = str(result.stdout).strip()
    if result.outcome is Outcome.OK and said == _DENIED_STATUS:
        text = "Programs reach the proxy, which refuses private addresses, and nothing else."
        return [Finding("network-proxy", True, text)]
    text = result.message or f"Private addresses are not all refused: {said[:200]}"
    return [Finding("network-proxy", False, text, _PROXY_MEND, _PROXY_WHY)]


# ===== end sandbox_core/network_proof.py =====

# ===== begin sandbox_core/reaper.py =====

"""Removes sandboxes that nobody can be using any more: at the start, and on a timer."""

_reaper_log = logging.getLogger("run_code.reaper")


def reap(engine: Engine, now: float) -> list[Lease]:
    """Remove every sandbox that is provably dead; returns the leases of those removed.

    ``now`` is in seconds since the epoch. Raises EngineError when the engine cannot be asked,
    or, after all have been tried, when one could not be removed.
    """
    removed: list[Lease] = []
    problem: EngineError | None = None
    for lease in engine.leftovers():
        if not is_dead(lease, now):
            continue
        try:
            engine.remove(lease)
        except EngineError as error:
            problem = error
        else:
            removed.append(lease)
    if problem is not None:
        raise problem
    return removed


class Reaper:
    """Reaps in a thread of its own until stop() or the end of the process."""

    def __init__(self, engine: Engine, interval_seconds: float = 30.0) -> None:
        self._engine = engine
        self._interval_seconds = interval_seconds
        self._stopped = threading.Event()
        self._last_problem = ""

    def start(self) -> None:
        """The first pass begins at once."""
        threading.Thread(target=self._work, name="run-code-reaper", daemon=True).start()

    def stop(self) -> None:
        """No further pass begins."""
        self._stopped.set()

    def _work(self) -> None:
        while not self._stopped.is_set():
            self._pass()
            self._stopped.wait(self._interval_seconds)

    def _pass(self) -> None:
        try:
            removed = reap(self._engine, time.time())
        except Exception as error:  # whatever it is, the next pass may do better
            if str(error) != self._last_problem:  # a daemon that is down is told once
                self._last_problem = str(error)
                _reaper_log.warning("left-over sandboxes cannot be removed: %r", error)
            return
        self._last_problem = ""
        for lease in removed:
            kind = "network" if lease.is_network else "sandbox"
            _reaper_log.info("removed the left-over %s of run %s", kind, lease.run_id)


# ===== end sandbox_core/reaper.py =====

# ===== begin sandbox_core/service_client.py =====

"""Signed calls to a codebox service, each with a time-out, and its failures in words."""

_TOKEN_SECONDS = 60
_SHORTEST_KEY = 32
_CONNECT_SECONDS = 5.0
_CONNECTIONS = 64
_LONGEST_LINE = 64 << 20
_LONGEST_SENTENCE = 500
_LATER = "Try again in a minute; if it stays, tell your administrator."
_SENTENCES = {
    401: "The code service does not accept this Open WebUI. Ask your administrator to give "
    "both the same secret (CODEBOX_SECRET).",
    403: "The code service does not let you run code. Ask your administrator.",
    404: "There is no code service at the address that is set. Ask your administrator to "
    "correct it.",
}


class ServiceClient:
    """A service's address, and the secret that tells it who we are.

    ``silence_seconds`` is how long it may say nothing. Usable by several threads. Raises
    InvalidRequest when the address or the secret cannot be right.
    """

    def __init__(self, url: str, secret: str, silence_seconds: float) -> None:
        if not url.startswith(("http://", "https://")):
            raise InvalidRequest(
                "The address of the code service must begin with http:// or https://. Ask "
                "your administrator to correct it."
            )
        if len(secret.encode("utf-8")) < _SHORTEST_KEY:
            raise InvalidRequest(
                f"The secret of the code service must have {_SHORTEST_KEY} characters or "
                "more. Ask your administrator to correct it."
            )
        import requests

        self._url = url.rstrip("/")
        self._secret = secret
        self._timeout = (_CONNECT_SECONDS, silence_seconds)
        self._http = requests.Session()
        self._failures = requests.RequestException
        for scheme in ("http://", "https://"):
            adapter = requests.adapters.HTTPAdapter(pool_maxsize=_CONNECTIONS)
            self._http.mount(scheme, adapter)

    def call(
        self,
        method: str,
        path: str,
        user: str = "",
        chat: str = "",
        accepted: tuple[int, ...] = (200,),
        **content: Any,
    ) -> Any:
        """Send a request with a token of its own; the answer is to be read and closed.

        ``accepted`` are the HTTP statuses that are no failure; ``content`` is as for
        requests. Raises InvalidRequest when the service refuses what was asked,
        EngineUnavailable when it cannot be reached or does not serve us.
        """
        token = self._token(user, chat)

        # Not as a header: one that requests finds in a .netrc file would take its place.
        def sign(request: Any) -> Any:
            request.headers["Authorization"] = f"Bearer {token}"
            return request

        try:
            answer = self._http.request(
                method,
                self._url + path,
                auth=sign,
                timeout=self._timeout,
                stream=True,
                # A token must not follow to wherever it is sent.
                allow_redirects=False,
                **content,
            )
        except self._failures as error:
            raise EngineUnavailable(_explain_no_answer(error), repr(error)) from error
        if answer.status_code in accepted:
            return answer
        with answer:
            raise _refusal(answer)

    def close(self) -> None:
        """Close the connections that are kept for the next call."""
        self._http.close()

    def _token(self, user: str, chat: str) -> str:
        import jwt

        now = int(time.time())
        claims = {
            "sub": user or "nobody",
            "chat": chat,
            "aud": "codebox",
            "iat": now,
            "exp": now + _TOKEN_SECONDS,
            "jti": secrets.token_hex(16),
        }
        return jwt.encode(claims, self._secret, algorithm="HS256")

    def lines(self, answer: Any) -> Iterator[bytes]:
        """The lines of an answer as they come. Raises ChannelClosed when it breaks off, and
        ProtocolError when a line has no end."""
        rest = b""
        try:
            for data in answer.iter_content(None):
                *whole, rest = (rest + data).split(b"\n")
                yield from whole
                if len(rest) > _LONGEST_LINE:
                    raise ProtocolError(
                        "The code service sent something that cannot be understood.",
                        "a line without end",
                    )
        except self._failures as error:
            raise ChannelClosed(
                f"The connection to the code service was lost during the run. {_LATER}",
                repr(error),
            ) from error


def _explain_no_answer(error: Exception) -> str:
    import requests

    if isinstance(error, requests.exceptions.SSLError):
        return (
            "The certificate of the code service is not trusted, so nothing was sent to it. "
            "Ask your administrator."
        )
    if isinstance(error, requests.exceptions.ReadTimeout):
        return f"The code service does not answer. {_LATER}"
    return f"The code service cannot be reached. {_LATER}"


def _refusal(answer: Any) -> SandboxError:
    """What an answer other than 200 means to a person."""
    status = answer.status_code
    detail = f"HTTP {status}"
    told = _told_sentence(answer)
    if status in (400, 413, 422) and told:
        return InvalidRequest(told, detail)
    if status in (429, 503) and told:
        return EngineUnavailable(told, detail)
    sentence = _SENTENCES.get(status)
    if 300 <= status < 400:
        sentence = _SENTENCES[404]
    if sentence is None:
        sentence = f"The code service has a fault (HTTP {status}). {_LATER}"
    return EngineUnavailable(sentence, detail)


def _told_sentence(answer: Any) -> str:
    """The service's own sentence; empty when the answer is somebody else's, as a proxy's."""
    import requests

    try:
        plain = answer.json()
    except (ValueError, requests.RequestException):
        return ""
    told = plain.get("message") if isinstance(plain, dict) else None
    return told[:_LONGEST_SENTENCE] if isinstance(told, str) else ""


# ===== end sandbox_core/service_client.py =====

# ===== begin sandbox_core/wire.py =====

"""Runs as JSON: what goes between a plugin and the codebox service. Pure, both directions.

The answer to a run is one JSON object a line. ``event`` says what it is: ``alive`` (nothing
happened), ``started`` and ``text`` as in RunEvent, ``file``, ``display`` and ``full_output``
(one begins) and ``data`` (its next bytes, base64), and at last ``result``. A stream that ends
without a ``result`` means that the run was lost.
"""

NDJSON = "application/x-ndjson"
ALIVE_LINE = b'{"event":"alive"}\n'
_CHUNK_BYTES = 3 << 16  # a multiple of 3 needs no padding
# What has a content: events, and with an s the fields of a result.
_CONTENT_KINDS = ("file", "display", "full_output")
_BROKEN = "The code service sent something that cannot be understood."


def encode_request(request: RunRequest) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The JSON object to post, and the contents to send beside it, by the names of their
    parts; without parts the JSON is all."""
    parts = {f"file{number}": file.whole() for number, file in enumerate(request.files)}
    plain: dict[str, Any] = {
        "run_id": request.run_id,
        "steps": [
            {"language": step.language, "code": _valid_text(step.code)}
            for step in request.steps
        ],
        "limits": asdict(request.limits),
        "files": [
            {"name": file.name, "part": part}
            for file, part in zip(request.files, parts, strict=True)
        ],
    }
    if request.network:
        plain["network"] = request.network
    if request.packages:
        plain["packages"] = list(request.packages)
    if request.stdin:
        plain["stdin_part"] = "stdin"
        parts["stdin"] = request.stdin
    return plain, parts


def _valid_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def encode_event(event: RunEvent) -> bytes:
    """The line for an event."""
    return _line(
        {
            "event": event.kind,
            "step": event.step,
            "stream": event.stream,
            "text": event.text,
        }
    )


def encode_result(result: RunResult) -> Iterator[bytes]:
    """The lines for a result, its files and displays first; their contents are read and
    closed."""
    plain = result.to_plain()
    full_output = plain.pop("full_output")
    # Without gaps the text is all in the result itself.
    is_needed = full_output is not None and result.output.omitted
    plain["full_outputs"] = [full_output] if is_needed else []
    for kind in _CONTENT_KINDS:
        for entry in plain.pop(kind + "s"):
            content = entry.pop("content")
            yield _line({"event": kind, **entry})
            yield from _data_lines(content)
    yield _line({"event": "result", **plain})


def _data_lines(content: IO[bytes]) -> Iterator[bytes]:
    with content:
        while chunk := content.read(_CHUNK_BYTES):
            text = base64.b64encode(chunk).decode("ascii")
            yield _line({"event": "data", "base64": text})


def _line(plain: dict[str, Any]) -> bytes:
    return json.dumps(plain, separators=(",", ":")).encode("ascii") + b"\n"


class RunReader:
    """Takes the lines of an answer; ``result`` is None until the last one came.

    The service is trusted to be bounded, not to be well: whatever is broken is a
    ProtocolError and leaves no open file behind after close().
    """

    def __init__(self) -> None:
        self.result: RunResult | None = None
        self._received: dict[str, list[dict[str, Any]]] = {
            kind: [] for kind in _CONTENT_KINDS
        }
        self._content: IO[bytes] | None = None

    def take(self, line: bytes) -> RunEvent | None:
        """One line; gives the event if it is one. Raises ProtocolError."""
        try:
            plain = json.loads(line)
            return self._take(plain.pop("event"), plain)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ProtocolError(_BROKEN, repr(error)) from error

    def close(self) -> None:
        """Drop what was received without a result."""
        if self.result is None:
            for entries in self._received.values():
                for entry in entries:
                    entry["content"].close()

    def _take(self, kind: str, plain: dict[str, Any]) -> RunEvent | None:
        if kind in ("started", "text"):
            step, stream = int(plain["step"]), str(plain["stream"])
            return RunEvent(kind, step, stream, str(plain["text"]))
        if kind in _CONTENT_KINDS:
            self._begin(kind, plain)
        elif kind == "data":
            self._append(plain["base64"])
        elif kind == "result":
            self.result = self._decode_result(plain)
        return None

    def _begin(self, kind: str, plain: dict[str, Any]) -> None:
        self._content = spooled_file()
        entry = {"name": safe_output_name(str(plain["name"])), "content": self._content}
        if kind == "display":
            entry["mime_type"] = str(plain["mime_type"])
        self._received[kind].append(entry)

    def _append(self, text: str) -> None:
        if self._content is None:
            raise ProtocolError(_BROKEN, "data without a file")
        try:
            self._content.write(base64.b64decode(text, validate=True))
        except binascii.Error as error:
            raise ProtocolError(_BROKEN, repr(error)) from error

    def _decode_result(self, plain: dict[str, Any]) -> RunResult:
        # A newer service may tell more than this side knows of.
        known = {entry.name for entry in fields(RunResult)}
        values = {name: value for name, value in plain.items() if name in known}
        values["notes"] = tuple(str(note) for note in values["notes"])
        for kind, entries in self._received.items():
            for entry in entries:
                entry["size"] = entry["content"].tell()
                entry["content"].seek(0)
            values[kind + "s"] = entries
        full_outputs = values.pop("full_outputs")
        values["full_output"] = full_outputs[-1] if full_outputs else None
        return RunResult.from_plain(values)


# ===== end sandbox_core/wire.py =====

# ===== begin sandbox_core/remote_runner.py =====

"""Runs requests by way of a codebox service: a runner like the local one, over HTTP."""

_remote_log = logging.getLogger("run_code.remote")
# How long a stopped run may take to hand over what it has.
_FAREWELL_SECONDS = 5.0
_STOPPED = "The run was stopped on request."


class RemoteRunner:
    """Runs each request in a codebox service. See Runner, and ServiceClient for ``url``,
    ``secret``, ``silence_seconds`` and what is raised when they cannot be right."""

    def __init__(self, url: str, secret: str, silence_seconds: float = 30.0) -> None:
        self._client = ServiceClient(url, secret, silence_seconds)

    def run(
        self,
        request: RunRequest,
        on_event: OnEvent | None = None,
        cancel: CancelToken | None = None,
    ) -> RunResult:
        """See Runner.run."""
        plan_files(request)
        cancel = cancel or CancelToken()
        started = time.monotonic()
        transcript = Transcript(request.limits.kept_output_kib * 1024)
        feed = EventFeed(on_event)
        try:
            result = self._converse(request, transcript, feed, cancel)
        except InvalidRequest:
            raise
        except SandboxError as problem:
            result = _lost(request, transcript, cancel, problem)
        finally:
            feed.close()
        # Apart from the service's own time, so that the way there can be told from it.
        evidence = {
            **result.evidence,
            "service_ms": f"{1000 * result.total_seconds:.1f}",
        }
        total = time.monotonic() - started
        return replace(result, total_seconds=total, evidence=evidence)

    def findings(self) -> list[Finding]:
        """What the service says of itself, for the doctor. Never raises for a fault."""
        try:
            with self._client.call("GET", "/ready", accepted=(200, 503)) as answer:
                return [Finding(**entry) for entry in answer.json()["findings"]]
        except (SandboxError, ValueError, KeyError, TypeError) as error:
            mend = "set CODEBOX_API_URL and CODEBOX_SECRET as the service has them"
            return [Finding("codebox", False, str(error), mend)]

    def close(self) -> None:
        """See Runner.close."""
        self._client.close()

    def _converse(
        self,
        request: RunRequest,
        transcript: Transcript,
        feed: EventFeed,
        cancel: CancelToken,
    ) -> RunResult:
        if cancel.is_set():
            raise ChannelClosed(_STOPPED)
        answer = self._client.call(
            "POST",
            "/v1/run",
            request.user,
            request.chat,
            **_content(request),
        )
        cancel.call_on_cancel(lambda: self._ask_to_stop(request))
        with answer, closing(RunReader()) as reader:
            for line in _until_farewell(self._client.lines(answer), cancel):
                event = reader.take(line)
                if event is not None:
                    feed.put(event)
                    if event.kind == "text":
                        transcript.add(event.stream, event.text)
                if reader.result is not None:
                    return reader.result
        raise ChannelClosed(
            "The code service ended the run without a result. Try again; if it stays, tell "
            "your administrator."
        )

    def _ask_to_stop(self, request: RunRequest) -> None:
        """Without waiting: whoever cancels may be an event loop."""
        threading.Thread(
            target=self._stop, args=(request,), name="run-code-stop", daemon=True
        ).start()

    def _stop(self, request: RunRequest) -> None:
        path = f"/v1/runs/{request.run_id}"
        try:
            self._client.call("DELETE", path, request.user, request.chat).close()
        except SandboxError as problem:
            # The end of the connection stops the run as well, only without a farewell.
            _remote_log.info("run %s: not stopped: %s", request.run_id, problem)


def _content(request: RunRequest) -> dict[str, Any]:
    """Files and stdin travel as they are, beside the JSON; without them it is the JSON."""
    plain, contents = encode_request(request)
    headers = {"Accept": NDJSON}
    if not contents:
        return {"headers": headers, "json": plain}
    parts: dict[str, Any] = {"request": (None, json.dumps(plain), "application/json")}
    parts |= {name: ("content", data) for name, data in contents.items()}
    return {"headers": headers, "files": parts}


def _until_farewell(lines: Iterator[bytes], cancel: CancelToken) -> Iterator[bytes]:
    """The lines; of a stopped run those that come in time. The service gives a sign of life
    every two seconds. Raises ChannelClosed."""
    farewell = None
    for line in lines:
        yield line
        if cancel.is_set():
            farewell = farewell or Deadline(_FAREWELL_SECONDS)
            if farewell.passed():
                raise ChannelClosed(_STOPPED)


def _lost(
    request: RunRequest,
    transcript: Transcript,
    cancel: CancelToken,
    problem: SandboxError,
) -> RunResult:
    """A run of which no result came: what it printed is kept."""
    run_id, cancelled = request.run_id, cancel.is_set()
    if not cancelled:
        _remote_log.error("run %s: %s (%s)", run_id, problem, problem.detail)
    stdout, stderr, output = transcript.finish()
    return RunResult(
        run_id,
        Outcome.CANCELLED if cancelled else Outcome.SANDBOX_ERROR,
        _STOPPED if cancelled else str(problem),
        stdout=stdout,
        stderr=stderr,
        output=output,
        evidence={"engine": "codebox"},
    )


# ===== end sandbox_core/remote_runner.py =====

# ===== begin sandbox_core/self_proof.py =====

"""Proves in the background that every limit bites, and says when nothing may run any more.

Runs are not kept waiting for it: each sandbox is asked for its kernel before it gets any
code, and the proofs come some seconds after the first run. A limit that does not bite, twice
in a row, ends the service of this process until a later proof holds.
"""

_FIRST_AFTER_SECONDS = 10.0
_AGAIN_AFTER_SECONDS = 60.0
_proof_log = logging.getLogger("run_code.proof")


class SelfProof:
    """The proofs of one runner; ``accepted`` are names of limits that need not hold."""

    def __init__(
        self,
        runner: Runner,
        accepted: Collection[str],
        first_after_seconds: float = _FIRST_AFTER_SECONDS,
    ) -> None:
        self._runner = runner
        self._accepted = frozenset(accepted)
        self._first_after_seconds = first_after_seconds
        self._stopped = threading.Event()
        self._cancel = CancelToken()
        self._refusal = ""

    def start(self) -> None:
        """Prove soon, in a thread of its own, which ends when the proofs hold."""
        threading.Thread(target=self._work, name="run-code-proof", daemon=True).start()

    def stop(self) -> None:
        """End what is under way. Idempotent."""
        self._stopped.set()
        self._cancel.cancel()

    def why_not(self) -> str:
        """A sentence when nothing may run here; else empty."""
        return self._refusal

    def _work(self) -> None:
        pause = self._first_after_seconds
        while not self._stopped.wait(pause):
            pause = _AGAIN_AFTER_SECONDS
            failed = self._failed()
            # A busy host can make a proof miss its time: twice in a row is no accident.
            if failed:
                names = {finding.name for finding in failed}
                failed = [again for again in self._failed() if again.name in names]
            if self._stopped.is_set():
                return
            self._refusal = _refusal_for(failed)
            for finding in failed:
                _proof_log.error("%s %s %s", finding.text, finding.why, finding.mend)
            if not failed:
                _proof_log.info("every limit of the sandboxes is proven")
                return

    def _failed(self) -> list[Finding]:
        findings = prove_limits(self._runner, self._cancel)
        return reasons_to_refuse(findings, self._accepted)


def _refusal_for(failed: list[Finding]) -> str:
    if not failed:
        return ""
    names = ", ".join(finding.name for finding in failed)
    return (
        f"Code is not run here, because a limit of the sandboxes does not hold ({names}). Ask "
        "your administrator to run the check: the server's log says what is wrong."
    )


# ===== end sandbox_core/self_proof.py =====

# ===== begin owui_plugin/backend.py =====

"""Where the plugins' runs go: to a codebox service, or to a container engine of their own."""

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


# ===== end owui_plugin/backend.py =====

# ===== begin owui_plugin/dialogs.py =====

"""Questions to the person who clicked. No dialog is possible without a live page: each
question then has an answer of its own, and none waits for ever."""

_dialogs_log = logging.getLogger("run_code.dialogs")
_PATIENCE_SECONDS = 120.0
_ALL = "all"
# What choose_blocks gives for an administrator who wants the sandbox checked instead.
CHECK = "check"
_CHECK_OPTION = {"value": CHECK, "label": "Check the sandbox (takes half a minute)"}


class _NoDialog(Exception):
    """There is no page that could show a dialog."""


async def choose_blocks(
    caller: Any, blocks: Sequence[CodeBlock], is_admin: bool = False
) -> list[CodeBlock] | str:
    """Which of several blocks to run: all or one; empty when the person cancels, or does
    not answer. The last one when nobody can be asked. An administrator may choose CHECK.
    """
    if len(blocks) == 1:
        return list(blocks)
    options = [{"value": _ALL, "label": "All, in order, in one sandbox"}]
    options += [
        {
            "value": str(index),
            "label": f"{block.number}: {block.language} — {block.first_line()}",
        }
        for index, block in enumerate(blocks)
    ]
    if is_admin:
        options.append(_CHECK_OPTION)
    try:
        answer = await _select(caller, "Which code should run?", options, _ALL)
    except _NoDialog:
        return [blocks[-1]]
    if answer == CHECK and is_admin:
        return CHECK
    if answer == _ALL:
        return list(blocks)
    if answer.isdigit() and int(answer) < len(blocks):
        return [blocks[int(answer)]]
    return []


async def choose_language(caller: Any, block: CodeBlock) -> str:
    """The language for a block without a tag; empty when none was picked."""
    options = [
        {"value": entry.name, "label": entry.title} for entry in known_languages()
    ]
    title = f"In which language is “{block.first_line()}”?"
    try:
        answer = await _select(caller, title, options, PYTHON.name)
    except _NoDialog:
        return ""
    language = find_language(answer)
    return language.name if language else ""


async def ask_to_stop(caller: Any) -> bool:
    """Whether the person wants the running code stopped; only a clear yes is one."""
    question = {
        "title": "This code is still running",
        "message": "Stop it? What it printed so far is kept.",
    }
    try:
        return await _ask(caller, "confirmation", question) is True
    except _NoDialog:
        return False


async def ask_to_check(caller: Any, sentence: str) -> bool:
    """Whether an administrator, who reads why nothing ran, wants the sandbox checked."""
    question = {
        "title": "Check the sandbox?",
        "message": f"{sentence}\n\nAs an administrator you can have the sandbox checked now. It "
        "takes half a minute.",
    }
    try:
        return await _ask(caller, "confirmation", question) is True
    except _NoDialog:
        return False


async def show_report(caller: Any, title: str, text: str) -> None:
    """Show a text until it is clicked away."""
    with suppress(_NoDialog):
        await _ask(caller, "confirmation", {"title": title, "message": text})


async def _select(
    caller: Any, title: str, options: list[dict[str, str]], value: str
) -> str:
    question = {
        "title": "Run code",
        "message": title,
        "value": value,
        "input": {"type": "select", "options": options},
    }
    answer = await _ask(caller, "input", question)
    return answer if isinstance(answer, str) else ""


async def _ask(caller: Any, kind: str, question: dict[str, Any]) -> Any:
    """The page's answer; None when nobody answers. Raises _NoDialog when there is no page."""
    if caller is None:
        raise _NoDialog
    try:
        asked = settle(caller({"type": kind, "data": question}))
        answer = await asyncio.wait_for(asked, _PATIENCE_SECONDS)
    except TimeoutError:
        return None
    except Exception as error:
        _dialogs_log.info("a dialog could not be shown: %r", error)
        raise _NoDialog from error
    if isinstance(answer, dict):  # Open WebUI's word that no page is there
        raise _NoDialog
    return answer


# ===== end owui_plugin/dialogs.py =====

# ===== begin sandbox_core/admission.py =====

"""Who may start a run now, and who waits: an asyncio queue that holds no thread."""


class Busy(SandboxError):
    """Too many runs are waiting already."""


@dataclass(eq=False, slots=True)
class Turn:
    """One run in the queue. ``admitted``: its place is counted, whether it knows or not."""

    user: str
    answer: asyncio.Future[bool]
    admitted: bool = False


class Admission:
    """At most ``total`` runs at one time, ``per_user`` of one user; others wait.

    One user's runs start in the order in which they came. Among users, whoever has the
    fewest running goes first, and of those they take turns: a long queue of one user holds
    up nobody else. At most ``most_waiting`` wait, ``most_waiting_per_user`` of
    one user. To be entered in one event loop or several, and left from any thread.
    """

    def __init__(
        self,
        total: int,
        per_user: int,
        most_waiting: int,
        most_waiting_per_user: int | None = None,
    ) -> None:
        self._total = total
        self._per_user = per_user
        self._most_waiting = most_waiting
        own = most_waiting if most_waiting_per_user is None else most_waiting_per_user
        self._most_waiting_per_user = own
        self._running: Counter[str] = Counter()
        # In the order in which the users have their turns.
        self._waiting: dict[str, deque[Turn]] = {}
        self._lock = threading.Lock()

    async def enter(self, user: str, cancel: CancelToken) -> bool:
        """Wait for a place. True: the run may start, and leave() must follow. False: the run
        was cancelled before. Raises Busy when too many wait."""
        return await self.wait(self.ask(user, cancel))

    def ask(self, user: str, cancel: CancelToken) -> Turn:
        """Take a place, or one in the queue; wait() must follow. Raises Busy."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        turn = Turn(user, answer)
        if cancel.is_set():
            answer.set_result(False)
            return turn
        with self._lock:
            if self._has_room(user) and user not in self._waiting:
                self._running[user] += 1
                turn.admitted = True
                answer.set_result(True)
                return turn
            self._check_queue(user)
            self._waiting.setdefault(user, deque()).append(turn)
        cancel.call_on_cancel(lambda: self._withdraw(turn))
        return turn

    async def wait(self, turn: Turn) -> bool:
        """The rest of enter(), for whoever asked."""
        try:
            return await turn.answer
        except asyncio.CancelledError:
            self._withdraw(turn)
            if turn.admitted:
                self.leave(turn.user)
            raise

    def would_wait(self, user: str) -> bool:
        """Whether enter() would have to wait now."""
        with self._lock:
            return not self._has_room(user) or user in self._waiting

    def counts(self) -> tuple[int, int]:
        """How many run, and how many wait."""
        with self._lock:
            return self._running.total(), self._count_waiting()

    def leave(self, user: str) -> None:
        """A run has ended: let in whoever has room now. Any thread."""
        with self._lock:
            self._running[user] -= 1
            if not self._running[user]:
                del self._running[user]
            while turn := self._next_turn():
                self._running[turn.user] += 1
                turn.admitted = True
                self._take_out(turn)
                if queue := self._waiting.pop(turn.user, None):
                    self._waiting[turn.user] = queue  # behind all others
                _answer(turn, True)

    def _has_room(self, user: str) -> bool:
        full = self._running.total() >= self._total
        return not full and self._running[user] < self._per_user

    def _check_queue(self, user: str) -> None:
        waiting = self._count_waiting()
        if waiting >= self._most_waiting:
            raise Busy(f"Too many runs are waiting ({waiting}). Try again in a minute.")
        own = len(self._waiting.get(user, ()))
        if own >= self._most_waiting_per_user:
            raise Busy(
                f"Too many of your runs are waiting ({own}). Let some end, then try again."
            )

    def _count_waiting(self) -> int:
        return sum(len(queue) for queue in self._waiting.values())

    def _next_turn(self) -> Turn | None:
        first = [
            queue[0] for user, queue in self._waiting.items() if self._has_room(user)
        ]
        return min(first, key=lambda turn: self._running[turn.user], default=None)

    def _take_out(self, turn: Turn) -> None:
        queue = self._waiting[turn.user]
        queue.remove(turn)
        if not queue:
            del self._waiting[turn.user]

    def _withdraw(self, turn: Turn) -> None:
        """Take a cancelled run out of the queue, if it is still in it. Any thread."""
        with self._lock:
            if turn in self._waiting.get(turn.user, ()):
                self._take_out(turn)
                _answer(turn, False)


def _answer(turn: Turn, admitted: bool) -> None:
    loop = turn.answer.get_loop()
    loop.call_soon_threadsafe(_settle_answer, turn.answer, admitted)


def _settle_answer(answer: asyncio.Future[bool], admitted: bool) -> None:
    if not answer.done():
        answer.set_result(admitted)


# ===== end sandbox_core/admission.py =====

# ===== begin sandbox_core/audit.py =====

"""One line of JSON for each run: who ran what, how it ended, and what it cost.

The code itself is not in it, only its hash: it may hold what a person pasted in trust.
"""

_audit_log = logging.getLogger("run_code.audit")


def audit_record(
    request: RunRequest, result: RunResult, with_code: bool = False, **facts: Any
) -> dict[str, Any]:
    """The values of the line. Sizes are in bytes, times in seconds; ``facts`` are added."""
    code = "\0".join(step.code for step in request.steps)
    record = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "run": request.run_id,
        "user": request.user,
        "chat": request.chat,
        "languages": [step.language for step in request.steps],
        "outcome": str(result.outcome),
        "exit_code": result.shell_exit_code,
        "code_sha256": hashlib.sha256(code.encode("utf-8", "replace")).hexdigest(),
        "code_bytes": sum(
            len(step.code.encode("utf-8", "replace")) for step in request.steps
        ),
        "stdin_bytes": len(request.stdin),
        "files_in": len(request.files),
        "bytes_in": sum(file.size for file in request.files),
        "stdout_bytes": _size(result.stdout),
        "stderr_bytes": _size(result.stderr),
        "files_out": len(result.files),
        "bytes_out": sum(file.size for file in result.files),
        "seconds": round(result.seconds, 3),
        "total_seconds": round(result.total_seconds, 3),
        "image": result.evidence.get("image", ""),
        "network": result.evidence.get(NETWORK, NO_NETWORK),
        **facts,
    }
    if with_code:
        record["code"] = [step.code for step in request.steps]
    return record


def write_audit_line(record: dict[str, Any]) -> None:
    """Log the record as one line, at level INFO, to the logger ``run_code.audit``."""
    _audit_log.info("%s", json.dumps(record, ensure_ascii=True))


def _size(text: KeptText) -> int:
    kept = text.head.encode("utf-8", "replace") + text.tail.encode("utf-8", "replace")
    return len(kept) + text.omitted


# ===== end sandbox_core/audit.py =====

# ===== begin owui_plugin/runtime.py =====

"""One runtime per process, whatever Open WebUI does with the plugins' modules.

Open WebUI executes a plugin again at every save and forgets the old module, and Function and
Tool are two modules: each would make threads and a reaper of its own. So the runtimes hang on
one module object with a fixed name, made at the first use. Only plain values and callables
cross it, because each copy of the plugins has classes of its own.
"""

_BOARD_NAME = "run_code_runtime"
_STOP_SECONDS = 3.0
_OUR_FAULT = (
    "Something went wrong in Run code itself, so there is no result. Try again; if it stays, "
    "tell your administrator: the reason is in the server's log."
)
_runtime_log = logging.getLogger("run_code.runtime")
_board_lock = threading.Lock()

Told = Callable[[], None]


class _Runtime:
    """Backend, threads and queue for one set of shared settings."""

    def __init__(self, shared: SharedSettings) -> None:
        self._backend = open_backend(shared)
        runs, per_user = self._backend.runs, self._backend.runs_per_user
        most = shared.max_waiting_runs
        # The other half of the queue is for other people.
        self._admission = Admission(runs, per_user, most, (most + 1) // 2)
        # Never the loop's own executor: file uploads of everybody wait in that one.
        self._executor = ThreadPoolExecutor(runs + 2, "run-code")
        self._backend.start()
        self._lock = threading.Lock()
        self._runs = 0
        self._retired = False

    def open_run(self) -> None:
        """A run is about to begin here: until close_run() the threads stay, even if the
        runtime is retired meanwhile."""
        with self._lock:
            self._runs += 1

    def close_run(self) -> None:
        """The run has ended."""
        with self._lock:
            self._runs -= 1
        self._end_if_unused()

    def retire(self) -> None:
        """No new runs will come. Those that have come end in their own time, those in the
        queue too, and the threads after them."""
        self._backend.stop()
        drain = self._backend.give_up_idle_sandboxes
        threading.Thread(target=drain, name="run-code-drain", daemon=True).start()
        with self._lock:
            self._retired = True
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        with self._lock:
            over = self._retired and not self._runs
        if over:
            threading.Thread(target=self._end, name="run-code-end", daemon=True).start()

    def _end(self) -> None:
        self._executor.shutdown(wait=True)  # a run that nobody waits for may be left
        self._backend.runner.close()

    async def run(
        self,
        plain_request: dict[str, Any],
        user: str,
        cancel: CancelToken,
        on_wait: Told,
        on_start: Told,
        on_event: OnEvent | None,
    ) -> dict[str, Any]:
        """A plain RunRequest to a plain RunResult. A refusal is a result too: the caller may
        be another copy of these modules, to which our exceptions mean nothing."""
        run_id = plain_request["run_id"]
        if refusal := self._backend.why_not():
            return _refused(run_id, refusal).to_plain()
        try:
            if self._admission.would_wait(user):
                on_wait()
            if not await self._admission.enter(user, cancel):
                return _stopped(run_id).to_plain()
            return await self._run_admitted(
                plain_request, user, cancel, on_start, on_event
            )
        except SandboxError as error:
            return _refused(run_id, str(error)).to_plain()
        except Exception:
            _runtime_log.exception("run %s failed by a fault of ours", run_id)
            return _refused(run_id, _OUR_FAULT).to_plain()

    async def _run_admitted(
        self,
        plain_request: dict[str, Any],
        user: str,
        cancel: CancelToken,
        on_start: Told,
        on_event: OnEvent | None,
    ) -> dict[str, Any]:
        try:
            on_start()
            work = self._executor.submit(
                self._run_in_thread, plain_request, cancel, on_event
            )
        except BaseException:
            self._admission.leave(user)
            raise
        # The place is free when the thread is, even if nobody waits for the result any more.
        work.add_done_callback(lambda _: self._admission.leave(user))
        return await asyncio.wrap_future(work)

    def _run_in_thread(
        self,
        plain_request: dict[str, Any],
        cancel: CancelToken,
        on_event: OnEvent | None,
    ) -> dict[str, Any]:
        request = RunRequest.from_plain(plain_request)
        result = self._backend.runner.run(request, on_event, cancel)
        if self._backend.is_local:
            write_audit_line(audit_record(request, result))
        return result.to_plain()


def process_board() -> Any:
    """The module that all copies of the plugins share: runtimes, users of them, in-flight runs."""
    with _board_lock:
        board: Any = sys.modules.get(_BOARD_NAME)
        if board is None:
            board = ModuleType(
                _BOARD_NAME, "What all copies of the Run code plugins share."
            )
            board.lock = threading.Lock()
            board.runtimes = {}
            board.keys = {}
            board.in_flight = {}
            board.tasks = set()
            board.recovered = False
            board = sys.modules.setdefault(_BOARD_NAME, board)
        return board


def _open_runtime(plugin: str, shared: SharedSettings) -> Any:
    """The runtime of these settings and this build, opened for one run. One that no plugin
    uses now is retired."""
    board = process_board()
    key = (BUILD_ID, *shared.key)
    with board.lock:
        if key not in board.runtimes:
            board.runtimes[key] = _Runtime(shared)
        board.keys[plugin] = key
        unused = set(board.runtimes) - set(board.keys.values())
        retired = [board.runtimes.pop(old) for old in unused]
        runtime = board.runtimes[key]
        runtime.open_run()
    for old_runtime in retired:
        old_runtime.retire()
    return runtime


class RunTicket:
    """A run under way, which may outlive the call that started it."""

    def __init__(
        self, run_id: str, task: asyncio.Task[dict[str, Any]], cancel: CancelToken
    ) -> None:
        self._run_id = run_id
        self._task = task
        self._cancel = cancel

    async def result(self) -> RunResult:
        """Wait for the result. A cancelled wait leaves the run alone: call stop() then."""
        return RunResult.from_plain(await asyncio.shield(self._task))

    async def stop(self) -> RunResult:
        """End the run, and give what it printed so far. Takes at most three seconds."""
        self._cancel.cancel()
        done, _ = await asyncio.wait({self._task}, timeout=_STOP_SECONDS)
        if done and not self._task.cancelled() and self._task.exception() is None:
            return RunResult.from_plain(self._task.result())
        self._task.cancel()
        return _stopped(self._run_id)


def _refused(run_id: str, sentence: str) -> RunResult:
    return RunResult(run_id, Outcome.SANDBOX_ERROR, sentence)


def _stopped(run_id: str) -> RunResult:
    return RunResult(run_id, Outcome.CANCELLED, "The run was stopped on request.")


def start_run(
    plugin: str,
    shared: SharedSettings,
    request: RunRequest,
    user: str,
    cancel: CancelToken,
    on_wait: Told,
    on_start: Told,
    on_event: OnEvent | None = None,
) -> RunTicket:
    """Start a request for a user in the runtime of these settings.

    ``plugin`` is the caller's kind, ``function`` or ``tool``; ``on_wait`` is called if the
    run has to queue, ``on_start`` before it begins; ``on_event`` is called in a thread.
    A refusal comes as a result, with the sentence in its message.
    """
    runtime = _open_runtime(plugin, shared)
    run = runtime.run(request.to_plain(), user, cancel, on_wait, on_start, on_event)
    task = keep_task(run)
    task.add_done_callback(lambda _: runtime.close_run())
    return RunTicket(request.run_id, task, cancel)


def keep_task(work: Any) -> asyncio.Task[Any]:
    """Start a coroutine as a task that is not forgotten before it ends."""
    tasks = process_board().tasks
    task = asyncio.get_running_loop().create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


class InFlight:
    """The claim on one message of one chat: a second click finds it."""

    def __init__(self, key: tuple[str, ...], entry: dict[str, Any]) -> None:
        self._key = key
        self._entry = entry

    def release(self) -> None:
        """The run is over; the next click is a new one."""
        board = process_board()
        with board.lock:
            if board.in_flight.get(self._key) is self._entry:
                del board.in_flight[self._key]


def claim(
    key: tuple[str, ...], cancel: CancelToken
) -> tuple[InFlight | None, dict[str, Any]]:
    """Claim a message for a run, or find who has it.

    Returns (claim, entry), or (None, entry of the other). An entry has ``since`` (monotonic
    seconds) and ``cancel`` (a callable).
    """
    board = process_board()
    mine = {"since": time.monotonic(), "cancel": cancel.cancel}
    with board.lock:
        entry = board.in_flight.setdefault(key, mine)
    return (InFlight(key, mine) if entry is mine else None), entry


# ===== end owui_plugin/runtime.py =====

# ===== begin owui_plugin/progress.py =====

"""What a person sees of a run while it lasts: the grey line above the answer.

Each line is a write to Open WebUI's database, so there are at most three of them: waiting,
running, ended. The first two carry our mark, by which a restart finds them again. No run waits
until they are written, and one that is over at once has the last one only.
"""

# After this many seconds over its own limit a run is over at the latest. They hold start-up,
# transfers and clean-up; in the queue, other people's runs too.
_RUN_SECONDS = 120
_QUEUE_SECONDS = 600
# A run that is over within this time is over before anybody could read that it runs.
_QUIET_SECONDS = 0.15


class Progress:
    """Tells the states of one run, beside it. ``label`` names what runs, as ``Python``;
    ``limit_seconds`` is its time limit; ``show`` is awaited with each status line.
    """

    def __init__(
        self,
        label: str,
        run_id: str,
        limit_seconds: float,
        show: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        self._label = label
        self._run_id = run_id
        self._limit_seconds = limit_seconds
        self._show = show
        self._untold: dict[str, Any] | None = None
        self._changed = asyncio.Event()
        self._over = asyncio.Event()
        self._teller = keep_task(self._tell())

    def waiting(self) -> None:
        """The run has to wait for others."""
        self._say("Waiting for a free sandbox…", _QUEUE_SECONDS)

    def running(self) -> None:
        """The run is about to begin."""
        self._say(f"Running {self._label}…", _RUN_SECONDS)

    async def end(self) -> None:
        """Nothing is told from now on; what is being told has been told on return."""
        self._over.set()
        self._changed.set()
        await asyncio.wait({self._teller})

    def ended(self, result: RunResult) -> dict[str, Any]:
        """The last status of the run, for whoever shows its result."""
        if result.outcome is Outcome.OK:
            return ended_status(f"Ran {self._label} · {result.seconds:.1f} s")
        # There is room for one line; all of it is in the result.
        first, point, _ = result.message.partition(". ")
        return ended_status(first + point.strip())

    def _say(self, text: str, overtime: float) -> None:
        expires_at = time.time() + self._limit_seconds + overtime
        mark = running_mark(self._run_id, current_owner(), expires_at)
        self._untold = {"description": text, "done": False, MARK: mark}
        self._changed.set()

    async def _tell(self) -> None:
        await _set_within(self._over, _QUIET_SECONDS)
        while not self._over.is_set():
            await self._changed.wait()
            self._changed.clear()
            status, self._untold = self._untold, None
            if status is not None and not self._over.is_set():
                await self._show(status)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait for an event, but not longer than this."""
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return


def ended_status(text: str) -> dict[str, Any]:
    """A status after which nothing is under way any more."""
    return {"description": text, "done": True, MARK: ended_mark()}


# ===== end owui_plugin/progress.py =====

# ===== begin owui_plugin/check.py =====

"""The check of the sandbox for an administrator, from the button's own dialog."""

_LOOKING = "Checking the sandbox: it runs a dozen hostile programs"


async def check_sandbox(
    shared: SharedSettings, emitter: Emitter | None, caller: Any
) -> None:
    """Look, prove, and show each finding. Called for administrators only: the findings name
    paths and versions of the host."""
    await emit(emitter, "status", {"description": _LOOKING, "done": False})
    # Never the loop's own executor, and no place among the runs.
    executor = ThreadPoolExecutor(1, "run-code-check")
    try:
        loop = asyncio.get_running_loop()
        findings = await loop.run_in_executor(executor, examine_backend, shared)
    finally:
        executor.shutdown(wait=False)
    faults = sum(not finding.ok for finding in findings)
    sentence = f"{faults} to mend" if faults else "all is well"
    await emit(emitter, "status", ended_status(f"Sandbox checked: {sentence}"))
    await show_report(
        caller, f"Check of the sandbox: {sentence}", report_text(findings)
    )


def report_text(findings: Sequence[Finding]) -> str:
    """The findings as Markdown: what is wrong comes first, with its mend."""
    lines = []
    for finding in sorted(findings, key=lambda entry: entry.ok):
        lines.append(
            f"{'✅' if finding.ok else '❌'} **{finding.name}**: {finding.text}"
        )
        if not finding.ok:
            lines += [
                line for line in (finding.why, f"Mend it: `{finding.mend}`") if line
            ]
    return "\n\n".join(lines)


# ===== end owui_plugin/check.py =====

# ===== begin sandbox_core/terminal.py =====

"""Runs and findings on a terminal: what both command lines print, and their exit codes."""

_EXIT_CODES = {
    Outcome.TIMEOUT: 124,
    Outcome.SANDBOX_ERROR: 125,
    Outcome.CANCELLED: 130,
}
_KILLED = 137


def print_event(event: RunEvent) -> None:
    """Program output to the stream that it was written to, at once."""
    if event.kind == "text":
        stream = sys.stdout if event.stream == "stdout" else sys.stderr
        print(event.text, end="", file=stream, flush=True)


def print_message(result: RunResult, verbose: bool) -> None:
    """What became of a run, once, and where the reason is when that is no fault of it."""
    if result.message:
        print(result.message, file=sys.stderr)
    if result.outcome is Outcome.SANDBOX_ERROR and not verbose:
        print("With --verbose the log is shown, too.", file=sys.stderr)


def send_log(verbose: bool) -> None:
    """The log goes to stderr when it is asked for, else nowhere: what concerns people is
    printed in any case."""
    handler = logging.StreamHandler() if verbose else logging.NullHandler()
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def print_findings(findings: Sequence[Finding]) -> int:
    """One line for each finding, and how to mend it; returns 0 if all are well, else 1."""
    for finding in findings:
        print(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name}: {finding.text}")
        if finding.why and not finding.ok:
            print(f"      {finding.why}")
        if finding.mend and not finding.ok:
            print(f"      mend it: {finding.mend}")
    return 0 if all(finding.ok for finding in findings) else 1


def exit_status(result: RunResult) -> int:
    """The program's own exit code. If it did not end by itself: 124 after a time-out, 125 if
    it could not run, 130 when stopped, 128 + signal when killed, as shells and coreutils do.
    """
    if result.outcome in _EXIT_CODES:
        return _EXIT_CODES[result.outcome]
    code = result.shell_exit_code
    return _KILLED if code is None else code


# ===== end sandbox_core/terminal.py =====

# ===== begin owui_plugin/command_line.py =====

"""A pasted plugin file as a command: run a program with it, or prove that it works here.

echo 'print(1)' | python3 run_code.py [--language python]
python3 run_code.py --self-test
"""

_COULD_NOT_RUN = 125


def run_plugin_file(plugin: str) -> int:
    """The command of a plugin file; ``plugin`` is ``function`` or ``tool``. Returns the exit
    code: the program's own, or 125 when it could not run; 1 when the self-test found a fault.
    """
    parser = argparse.ArgumentParser(description=f"The Run code {plugin} as a command.")
    parser.add_argument(
        "--self-test", action="store_true", help="prove that runs work here"
    )
    parser.add_argument("--language", default="python", help="of the program on stdin")
    parser.add_argument("--verbose", action="store_true", help="show the log, too")
    options = parser.parse_args()
    send_log(options.verbose)
    try:
        settings = resolve_settings(EveryValve(), None, os.environ)
        if options.self_test:
            return print_findings(examine_backend(settings.shared))
        runner = open_backend(settings.shared).runner
        steps = (Step(options.language, sys.stdin.read()),)
        try:
            request = RunRequest(
                steps, limits=settings.limits, network=settings.network
            )
            result = runner.run(request, print_event)
        finally:
            runner.close()
    except SandboxError as error:
        print(error, file=sys.stderr)
        return _COULD_NOT_RUN
    print_message(result, options.verbose)
    return exit_status(result)


# ===== end owui_plugin/command_line.py =====

# ===== begin owui_plugin/displays.py =====

"""What a run showed, for Open WebUI: entries to store, and interactive parts as embeds.

HTML of a program is active content. It is never put into Markdown; stored, it is a download;
and as an embed it is two frames deep. The outer one is Open WebUI's, whose sandbox a user can
open to Open WebUI's own origin in the settings. The inner one is ours: scripts and nothing
else, an origin of its own always, no network but the libraries that charts are drawn with.
"""

_LARGEST_EMBED = 1 << 20
_MOST_EMBEDS = 4
_TALLEST = 2000  # pixels
_HTML_TYPE = "text/html"

# Where charts of plotly, Altair and Bokeh get their scripts.
_LIBRARIES = "https://cdn.plot.ly https://cdn.jsdelivr.net https://cdn.bokeh.org"
_POLICY = "; ".join(
    (
        "default-src 'none'",
        f"script-src 'unsafe-inline' 'unsafe-eval' blob: {_LIBRARIES}",
        f"style-src 'unsafe-inline' {_LIBRARIES}",
        f"font-src data: {_LIBRARIES}",
        "img-src data: blob:",
        "media-src data: blob:",
        "worker-src blob:",
        "form-action 'none'",
        "base-uri 'none'",
    )
)

# The inner document tells how tall it is; the outer one believes numbers only, and passes
# them on as Open WebUI expects them.
_MEASURING = """<script>
new ResizeObserver(() => parent.postMessage(document.documentElement.scrollHeight, "*"))
  .observe(document.documentElement);
</script>"""
_OUTER = """<!DOCTYPE html>
<html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<style>html, body {{ margin: 0; background: white }} iframe {{ border: 0; width: 100% }}</style>
</head><body>
<iframe title="{title}" sandbox="allow-scripts" srcdoc="{inner}"></iframe>
<script>
const frame = document.querySelector("iframe");
addEventListener("message", (event) => {{
  if (event.source !== frame.contentWindow || !Number.isFinite(event.data)) return;
  const height = Math.max(40, Math.min({tallest}, Math.ceil(event.data)));
  frame.style.height = height + "px";
  parent.postMessage({{ type: "iframe:height", height: height + 8 }}, "*");
}});
</script>
</body></html>
"""


def display_files(result: RunResult) -> tuple[OutputFile, ...]:
    """Every display as a file to store, in the order in which they were shown."""
    return tuple(
        OutputFile(entry.name, entry.size, entry.content) for entry in result.displays
    )


def display_embeds(result: RunResult) -> list[str]:
    """HTML documents for Open WebUI's ``embeds`` event, for the HTML that the run showed.

    What is too large for a chat to hold is left out; it is among display_files all the same.
    """
    embeds = []
    for entry in result.displays:
        if entry.mime_type == _HTML_TYPE and entry.size <= _LARGEST_EMBED:
            entry.content.seek(0)
            untrusted_html = entry.content.read().decode("utf-8", "replace")
            entry.content.seek(0)
            embeds.append(_isolated(untrusted_html, entry.name))
    return embeds[:_MOST_EMBEDS]


def _isolated(untrusted_html: str, title: str) -> str:
    return _OUTER.format(
        policy=_POLICY,
        title=html.escape(title),
        inner=html.escape(untrusted_html + _MEASURING),
        tallest=_TALLEST,
    )


# ===== end owui_plugin/displays.py =====

# ===== begin owui_plugin/file_names.py =====

"""Names of files: in the work folder, as a download, and shown. Pure functions.

A name from a program or a person is any text. In the work folder it stays what it is, as far
as a file system takes it; a download gets a name that is safe on every computer.
"""

_LONGEST_BYTES = 255
_LONGEST_DOWNLOAD = 200
_LONGEST_SUFFIX = 20
_FORBIDDEN = frozenset('<>:"/\\|?*')
# Control characters, invisible ones, halves of characters, and ends of lines.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)", re.IGNORECASE)
_DOUBLE_SUFFIX = re.compile(r"\.tar\.\w{1,4}$", re.IGNORECASE)
_UNNAMED = "file"


def work_name(untrusted_name: str) -> str:
    """The name that an attached file gets in the work folder: its own, without a path."""
    last = untrusted_name.replace("\0", "").rpartition("/")[2]
    name = last.encode("utf-8", "replace").decode()
    if name in ("", ".", ".."):
        return _UNNAMED
    return _shortened(name, _LONGEST_BYTES)


def unused_name(wanted: str, taken: set[str]) -> str:
    """The wanted name, or the first of name_2, name_3, … that is not taken."""
    candidate, number = wanted, 1
    while candidate in taken:
        number += 1
        mark = f"_{number}"
        stem, suffix = _split_suffix(_shortened(wanted, _LONGEST_BYTES - len(mark)))
        candidate = f"{stem}{mark}{suffix}"
    return candidate


def download_name(untrusted_path: str) -> str:
    """A name for a download: close to the file's own, and harmless everywhere."""
    last = untrusted_path.rpartition("/")[2]
    name = "".join("_" if _is_unsafe(character) else character for character in last)
    name = name.rstrip(". ")
    if not name or name[0] in ".- " or _DEVICE.match(name):
        name = "_" + name
    return _shortened(name, _LONGEST_DOWNLOAD).rstrip(". ")


def short_name(name: str, most: int = 80) -> str:
    """A name of at most ``most`` characters: what is cut is the middle, never the ending."""
    if len(name) <= most:
        return name
    end = most // 3
    return f"{name[: most - end - 1]}…{name[-end:]}"


def _is_unsafe(character: str) -> bool:
    return character in _FORBIDDEN or unicodedata.category(character) in _HIDDEN


def _split_suffix(name: str) -> tuple[str, str]:
    double = _DOUBLE_SUFFIX.search(name)
    at = double.start() if double else name.rfind(".")
    if at <= 0 or len(name[at:].encode("utf-8", "replace")) > _LONGEST_SUFFIX:
        return name, ""
    return name[:at], name[at:]


def _shortened(name: str, most_bytes: int) -> str:
    if len(name.encode("utf-8", "replace")) <= most_bytes:
        return name
    stem, suffix = _split_suffix(name)
    room = most_bytes - len(suffix.encode("utf-8", "replace"))
    return stem.encode("utf-8", "replace")[:room].decode("utf-8", "ignore") + suffix


# ===== end owui_plugin/file_names.py =====

# ===== begin owui_plugin/media_types.py =====

"""What a file is, told by its name: its MIME type, and how a chat can show it.

Only the name counts. Open WebUI serves everything but plain text and PDF as a download, so
that a page or a drawing from a sandbox never runs as a page of Open WebUI; a picture shown
by an ``<img>`` runs no script whatever it holds.
"""

_ANYTHING = "application/octet-stream"
_OFFICE = "application/vnd.openxmlformats-officedocument."
_MORE_TYPES = {
    ".avif": "image/avif",
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".flac": "audio/flac",
    ".ipynb": "application/x-ipynb+json",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".m4a": "audio/mp4",
    ".md": "text/markdown",
    ".ogg": "audio/ogg",
    ".opus": "audio/ogg",
    ".parquet": "application/vnd.apache.parquet",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".toml": "application/toml",
    ".wav": "audio/wav",
    ".webp": "image/webp",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
}
_PACKED = {
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
}
_PICTURES = frozenset(
    f"image/{kind}" for kind in ("png", "jpeg", "gif", "webp", "avif", "svg+xml", "bmp")
)
_READABLE = frozenset(
    {
        "text/plain",
        "text/csv",
        "text/tab-separated-values",
        "text/markdown",
        "application/json",
        "application/jsonl",
    }
)


def _known_types() -> MimeTypes:
    types = MimeTypes()  # the library's own table, without the machine's files
    for suffix, kind in _MORE_TYPES.items():
        types.add_type(kind, suffix)
    return types


_TYPES = _known_types()


def media_type(name: str) -> str:
    """The MIME type of a file of this name; ``application/octet-stream`` when unknown."""
    # A name is no URL: guess_type would cut it at a colon or a question mark.
    suffixed = "file." + ".".join(name.rpartition("/")[2].split(".")[1:][-2:])
    kind, packing = _TYPES.guess_type(suffixed.replace(":", "_"))
    if packing:
        return _PACKED.get(packing, _ANYTHING)
    return kind or _ANYTHING


def is_image(kind: str) -> bool:
    """Whether browsers show this type as a picture."""
    return kind in _PICTURES


def is_audio(kind: str) -> bool:
    """Whether this type is sound."""
    return kind.startswith("audio/")


def is_video(kind: str) -> bool:
    """Whether this type is video."""
    return kind.startswith("video/")


def can_preview(kind: str) -> bool:
    """Whether the start of such a file tells a reader something."""
    return kind in _READABLE


# ===== end owui_plugin/media_types.py =====

# ===== begin owui_plugin/file_store.py =====

"""What a run made, kept as files of the person in Open WebUI's own store."""

ARCHIVE_ABOVE = 10  # files of one run; more are offered in a ZIP archive too
_ARCHIVE_NAME = "files.zip"
_OUTPUT_NAME = "full-output.txt"
_PREVIEW_BYTES = 2048
_HASH_CHUNK = 1 << 20
_DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
_EMPTY = "empty"

_store_log = logging.getLogger("run_code.file_store")


@dataclass(frozen=True, slots=True)
class Place:
    """Whose files they are, and the message that they belong to."""

    user_id: str
    chat_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A stored file. ``kind``: ``shown`` (a figure or another display), ``made`` by the
    program, its whole ``output``, or an ``archive`` of all that it made; ``start`` is the
    first of its text, if it is one worth showing.
    """

    name: str
    size: int
    file_id: str
    kind: str
    media: str
    start: bytes = b""


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """What was stored of a run, what was not, and the names of old files that had to go."""

    files: tuple[KeptFile, ...] = ()
    refused: tuple[SkippedFile, ...] = ()
    deleted: tuple[str, ...] = ()

    def applied_to(self, result: RunResult) -> RunResult:
        """The result with the files and displays that are really there."""
        made, shown = (
            {file.name for file in self.files if file.kind == kind}
            for kind in ("made", "shown")
        )
        return replace(
            result,
            files=tuple(file for file in result.files if file.name in made),
            displays=tuple(one for one in result.displays if one.name in shown),
            skipped=(*result.skipped, *self.refused),
        )


@dataclass(frozen=True, slots=True)
class _Candidate:
    file: OutputFile
    kind: str


async def keep_files(
    place: Place, result: RunResult, quota: Quota, with_output: bool
) -> KeptFiles:
    """Store the files of a run for a person, as far as the quota goes; never raises for what
    the store does. ``with_output``: the whole output too, because the chat shows a part.
    """
    empty = [SkippedFile(file.name, _EMPTY) for file in result.files if not file.size]
    # What was shown is small, and what a person looks for first.
    candidates = [_Candidate(file, "shown") for file in display_files(result)]
    candidates += [_Candidate(file, "made") for file in result.files if file.size]
    if with_output:
        candidates += [_Candidate(file, "output") for file in _whole_output(result)]
    archive = await asyncio.to_thread(_archive_of, result.files)
    candidates += [_Candidate(file, "archive") for file in archive]
    if not candidates:
        return KeptFiles(refused=tuple(empty))
    deleted: list[str] = []
    try:
        async with storage_lock(data_folder(), place.user_id):
            if quota.delete_oldest:
                await _make_room(place, candidates, quota, deleted)
            kept, refused = await _keep_within_quota(
                place, result.run_id, candidates, quota
            )
        await link_to_chat(
            place.chat_id,
            place.message_id,
            [file.file_id for file in kept],
            place.user_id,
        )
    except Exception as error:
        _store_log.exception("the files of run %s could not be stored", result.run_id)
        reason = str(error) if isinstance(error, SandboxError) else _why_not(error)
        kept = []
        refused = [SkippedFile(entry.name, reason) for entry in result.contents]
    finally:
        for candidate in candidates:
            candidate.file.content.close()
    return KeptFiles(tuple(kept), (*empty, *refused), tuple(deleted))


async def _make_room(
    place: Place, candidates: Sequence[_Candidate], quota: Quota, deleted: list[str]
) -> None:
    """Delete the oldest files of a person as far as is needed, and note their names."""
    sizes = [candidate.file.size for candidate in candidates]
    stored = await files_of_runs(place.user_id)
    for file in oldest_to_delete(sizes, stored, quota):
        try:
            if await delete_file(file):
                deleted.append(file.name)
        except Exception:  # a storage provider raises whatever it likes
            _store_log.exception("an old file could not be deleted")


async def _keep_within_quota(
    place: Place, run_id: str, candidates: Sequence[_Candidate], quota: Quota
) -> tuple[list[KeptFile], list[SkippedFile]]:
    kept, refused = [], []
    usage = usage_of(await files_of_runs(place.user_id))
    reasons = refusals([entry.file.size for entry in candidates], usage, quota)
    for candidate, reason in zip(candidates, reasons, strict=True):
        stored = None
        if not reason:
            stored, reason = await _keep_one(place, run_id, candidate)
        if stored is not None:
            kept.append(stored)
        elif candidate.kind != "archive":
            refused.append(SkippedFile(candidate.file.name, reason))
    return kept, refused


async def _keep_one(
    place: Place, run_id: str, candidate: _Candidate
) -> tuple[KeptFile | None, str]:
    """The stored file, or None and why not."""
    file, file_id = candidate.file, str(uuid.uuid4())
    # No ending: where Open WebUI takes the type from this name, it must not be a page.
    stored_name = f"{file_id}_run_code"
    mark = {
        "run": run_id,
        "kind": candidate.kind,
        "path": file.name,
        "at": time.time(),
    }
    media = media_type(file.name)
    try:
        digest, start = await asyncio.to_thread(_look_into, file.content)
        path = await asyncio.to_thread(write_bytes, file.content, stored_name)
        name = download_name(file.name)
        record = FileRecord(file_id, place.user_id, name, path, mark)
        if await insert_record(record, media, file.size, digest) is None:
            raise RuntimeError("the database did not take the record")
    except Exception as error:  # a storage provider raises whatever it likes
        _store_log.exception("a file of run %s could not be stored", run_id)
        await asyncio.to_thread(delete_bytes, stored_name)
        return None, _why_not(error)
    start = start if can_preview(media) else b""
    return (
        KeptFile(file.name, file.size, file_id, candidate.kind, media, start),
        "",
    )


def _whole_output(result: RunResult) -> list[OutputFile]:
    """The output as a file; nothing when a part of it is lost."""
    if result.full_output is not None:
        return [result.full_output]
    if result.output.omitted:
        return []
    data = str(result.output).encode("utf-8", "replace")
    return [OutputFile(_OUTPUT_NAME, len(data), BytesIO(data))]


def _look_into(content: IO[bytes]) -> tuple[str, bytes]:
    """SHA-256 in hex and first bytes of a file, which is left at its start."""
    content.seek(0)
    start = content.read(_PREVIEW_BYTES)
    digest = hashlib.sha256(start)
    while chunk := content.read(_HASH_CHUNK):
        digest.update(chunk)
    content.seek(0)
    return digest.hexdigest(), start


def _why_not(error: Exception) -> str:
    if isinstance(error, OSError) and error.errno in _DISK_IS_FULL:
        return "the server's disk is full. Ask your administrator to make room"
    return "the server could not store it. Ask your administrator to look at its log"


def _archive_of(files: Sequence[OutputFile]) -> list[OutputFile]:
    """One archive of all files when there are many, else nothing. A host without room for it
    goes without."""
    if len(files) <= ARCHIVE_ABOVE or not any(file.size for file in files):
        return []
    content = spooled_file()
    try:
        with zipfile.ZipFile(
            content, "w", zipfile.ZIP_DEFLATED, compresslevel=1
        ) as archive:
            _fill_archive(archive, files)
        size = content.tell()
        content.seek(0)
    except OSError:
        _store_log.exception("an archive of files could not be made")
        content.close()
        return []
    return [OutputFile(_ARCHIVE_NAME, size, content)]


def _fill_archive(archive: zipfile.ZipFile, files: Sequence[OutputFile]) -> None:
    taken: set[str] = set()
    for file in files:
        safe = "/".join(download_name(part) for part in file.name.split("/"))
        name = unused_name(safe, taken)
        taken.add(name)
        file.content.seek(0)
        with archive.open(name, "w", force_zip64=True) as member:
            while chunk := file.content.read(_HASH_CHUNK):
                member.write(chunk)
        file.content.seek(0)


# ===== end owui_plugin/file_store.py =====

# ===== begin owui_plugin/sandbox_links.py =====

"""Links like ``sandbox:/mnt/data/chart.png`` in an answer, made to lead to the stored file.

Models write them because they know a sandbox with that folder. A browser can do nothing with
them. Pure functions.
"""

_WORK_LINK = re.compile(
    r"(?P<start>!?\[[^\]\n]*\]\(\s*)"
    r"(?P<target><?(?:sandbox:)?/mnt/data/(?:[^()\n]|\([^()\n]*\))*?)"
    r'(?P<end>(?:\s+"[^"\n]*")?\s*\))'
)
_PREFIX = re.compile(r"^<?(?:sandbox:)?/mnt/data/")
_FENCE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})", re.MULTILINE)


def resolve_links(markdown: str, addresses: Mapping[str, str]) -> str:
    """The text with each link to a file of the work folder replaced by that file's address.

    ``addresses``: by name in the work folder. Links to other files, and code blocks, stay.
    """
    if not addresses or "/mnt/data/" not in markdown:
        return markdown
    lines, mark = [], ""
    for line in markdown.split("\n"):
        fence = _FENCE.match(line)
        if fence and not mark:
            mark = fence["mark"]
        elif fence and _closes(line, fence["mark"], mark):
            mark = ""
        elif not mark:
            line = _WORK_LINK.sub(lambda link: _resolved(link, addresses), line)
        lines.append(line)
    return "\n".join(lines)


def resolve_links_in_items(output: Any, addresses: Mapping[str, str]) -> Any:
    """The ``output`` list of a message with such links of its answer resolved."""
    if not isinstance(output, list):
        return output
    return [_with_resolved_links(item, addresses) for item in output]


def _with_resolved_links(item: Any, addresses: Mapping[str, str]) -> Any:
    if (
        not isinstance(item, dict)
        or item.get("type") != "message"
        or is_result_item(item)
        or not isinstance(item.get("content"), list)
    ):
        return item
    parts = [
        (
            {**part, "text": resolve_links(part["text"], addresses)}
            if isinstance(part, dict) and isinstance(part.get("text"), str)
            else part
        )
        for part in item["content"]
    ]
    return {**item, "content": parts}


def _closes(line: str, fence: str, mark: str) -> bool:
    bare = not line.strip().strip(fence[0])
    return bare and fence[0] == mark[0] and len(fence) >= len(mark)


def _resolved(link: re.Match[str], addresses: Mapping[str, str]) -> str:
    name = _PREFIX.sub("", link["target"]).removesuffix(">")
    address = addresses.get(name) or addresses.get(unquote(name))
    return f"{link['start']}{address}{link['end']}" if address else link[0]


# ===== end owui_plugin/sandbox_links.py =====

# ===== begin owui_plugin/presenter.py =====

"""Puts a run's Markdown under an answer so that it is seen now, after a reload, by the model.

There are three kinds of message. One that Open WebUI 0.12 made has ``output`` items: ours is
written beside them and sent to the browser as the same list, so that the browser's own save
agrees with ours. An older or imported one has ``content`` only. One of a temporary chat is in
the browser alone, which takes it from the action's return value.
"""

_presenter_log = logging.getLogger("run_code.presenter")
# Seconds after the end at which the message is looked at: a browser saves its copy of the
# chat as soon as it has the action's answer, and a slow one takes its time.
_LOOKS_AFTER = (1.5, 5.0)
_NOT_SAVED = (
    "The result could not be saved with the chat: it will be gone after a reload. Run the "
    "code again, or copy it now."
)


class Presenter:
    """Shows one run under one message. ``stored`` is the message as it was at the click;
    ``emitter`` tells the browser and writes nothing itself.
    """

    def __init__(
        self,
        chat_id: str,
        message_id: str,
        stored: dict[str, Any] | None,
        shown_content: str,
        emitter: Emitter | None,
    ) -> None:
        self._chat_id = chat_id
        self._message_id = message_id
        self._stored = stored
        self._shown_content = shown_content
        self._emitter = emitter
        self._addresses: Mapping[str, str] = {}

    @property
    def _has_items(self) -> bool:
        return bool(self._stored and self._stored.get("output"))

    async def show_running(
        self, run_id: str, text: str, status: dict[str, Any]
    ) -> None:
        """Put up a status, and the provisional text where it can be replaced later."""
        item = text_item(run_id, text) if self._has_items else None
        if self._stored:
            await self._write(item, "", status)
        if item:
            await self._show_items(item)
        await emit(self._emitter, "status", status)

    async def show_preview(self, run_id: str, text: str) -> None:
        """Replace the provisional text in the browser, and nowhere else."""
        if self._has_items:
            await self._show_items(text_item(run_id, text))

    async def show_result(
        self,
        run_id: str,
        text: str,
        status: dict[str, Any],
        addresses: Mapping[str, str] | None = None,
    ) -> dict[str, Any] | None:
        """Put up the result and the last status; gives what the action has to return to Open
        WebUI. ``addresses``: of files that links in the answer may mean."""
        self._addresses = addresses or {}
        if not self._stored:
            await emit(self._emitter, "status", status)
            content = resolve_links(self._shown_content, self._addresses) + text
            return {"messages": [{"id": self._message_id, "content": content}]}
        item = text_item(run_id, text) if self._has_items else None
        saved = await self._write(item, "" if item else text, status)
        if item:
            await self._show_items(item)
        else:
            # For the browser alone: the event that Open WebUI stores would store it twice.
            await emit(self._emitter, "chat:message:delta", {"content": text})
        await emit(self._emitter, "status", status)
        if saved:
            keep_task(self._write_again_if_lost(run_id, item, status))
        else:
            warning = {"type": "error", "content": _NOT_SAVED}
            await emit(self._emitter, "notification", warning)
        return None

    async def _write(
        self, item: dict[str, Any] | None, more_content: str, status: dict[str, Any]
    ) -> bool:
        """All that is new about the message in one write to the database."""

        def change(message: dict[str, Any]) -> None:
            _put_result(message, item, self._addresses)
            if more_content:
                message["content"] = str(message.get("content") or "") + more_content
            _add_status(message, status)

        written = await edit_message(self._chat_id, self._message_id, change)
        if written is not None:
            self._stored = written
        return written is not None

    async def _show_items(self, item: dict[str, Any]) -> None:
        before = (self._stored or {}).get("output")
        await show_items(self._emitter, put_item(before, item))

    async def _write_again_if_lost(
        self, run_id: str, item: dict[str, Any] | None, status: dict[str, Any]
    ) -> None:
        """A browser that missed our events saves its own copy of the message over ours."""

        def change(message: dict[str, Any]) -> None:
            _put_result(message, item, self._addresses)
            if _says_running(message, run_id):
                _add_status(message, status)

        waited = 0.0
        for seconds in _LOOKS_AFTER:
            await asyncio.sleep(seconds - waited)
            waited = seconds
            message = await stored_message(self._chat_id, self._message_id)
            if not message or _is_in_order(message, run_id, item):
                continue
            _presenter_log.info("run %s: a browser wrote over its result", run_id)
            written = await edit_message(self._chat_id, self._message_id, change)
            if written and item:
                await show_items(self._emitter, written["output"])


async def add_item(
    chat_id: str,
    message_id: str,
    item: dict[str, Any],
    emitter: Emitter | None,
    addresses: Mapping[str, str] | None = None,
) -> bool:
    """Put an item into a stored message, in the place of the one with its id if there is
    one, and show it. ``addresses``: of files that links in the answer may mean. False when
    it could not be stored."""

    written = await edit_message(
        chat_id,
        message_id,
        lambda message: _put_result(message, item, addresses or {}),
    )
    if written is not None:
        await show_items(emitter, written["output"])
    return written is not None


async def resolve_message_links(
    place: Place, addresses: Mapping[str, str], emitter: Emitter | None
) -> None:
    """Make the links of a stored answer lead to these files, if it has such links."""
    message = await stored_message(place.chat_id, place.message_id)
    before = (message or {}).get("output")
    if resolve_links_in_items(before, addresses) == before:
        return
    written = await edit_message(
        place.chat_id,
        place.message_id,
        lambda message: _resolve_links_of(message, addresses),
    )
    if written is not None:
        await show_items(emitter, written["output"])


def _resolve_links_of(message: dict[str, Any], addresses: Mapping[str, str]) -> None:
    message["output"] = resolve_links_in_items(message.get("output"), addresses)


def _put_result(
    message: dict[str, Any], item: dict[str, Any] | None, addresses: Mapping[str, str]
) -> None:
    """The item, if this message has items, and what has to go or to change with it."""
    _forget_empty_error(message)
    if item:
        _resolve_links_of(message, addresses)
        put_into_message(message, item)


def put_into_message(message: dict[str, Any], item: dict[str, Any]) -> None:
    """Put an item into a message, and the text of all items where search looks for it."""
    message["output"] = put_item(message.get("output"), item)
    before = str(message.get("content") or "")
    message["content"] = plain_content(message["output"], before)


def _is_in_order(
    message: dict[str, Any], run_id: str, item: dict[str, Any] | None
) -> bool:
    shown = item is None or has_item(message.get("output"), item)
    error = _is_empty_error(message.get("error"))
    return shown and not error and not _says_running(message, run_id)


def _add_status(message: dict[str, Any], status: dict[str, Any]) -> None:
    message["statusHistory"] = [*(message.get("statusHistory") or []), status]


def _says_running(message: dict[str, Any], run_id: str) -> bool:
    mark = unfinished_mark(message.get("statusHistory"))
    return mark is not None and mark.get("run") == run_id


def _forget_empty_error(message: dict[str, Any]) -> None:
    if _is_empty_error(message.get("error")):
        # To delete the key would leave it in the second of Open WebUI's two stores.
        message["error"] = None


def _is_empty_error(error: Any) -> bool:
    """The browser notes such an error when a person leaves the page during a run."""
    return isinstance(error, dict) and error.get("content") in ({}, "{}", "", None)


# ===== end owui_plugin/presenter.py =====

# ===== begin owui_plugin/interrupted.py =====

"""Runs that a restart of Open WebUI cut off: their messages are told so, and end."""

_interrupted_log = logging.getLogger("run_code.interrupted")
# More than the margin after which a lease that ran out counts as dead.
_LEASE_MARGIN_SECONDS = 60.0


def mark_interrupted_runs_soon() -> None:
    """Once per process, as soon as there is an event loop to do it in: a page is about to be
    loaded then, and should not show a run that nobody works on."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    board = process_board()
    with board.lock:
        if board.recovered:
            return
        board.recovered = True
    keep_task(mark_interrupted_runs())


async def mark_interrupted_runs() -> None:
    """End every recent message with a run of ours whose process is gone.

    Of some that cannot be told yet: their process was on another host (a new container of
    Open WebUI is one), or is another worker. When their time is over, there is a second look.
    """
    undecided = await _mark_what_is_dead()
    if undecided:
        latest = max(float(mark["expires"]) for mark in undecided)
        await asyncio.sleep(latest + _LEASE_MARGIN_SECONDS - time.time())
        await _mark_what_is_dead()


async def _mark_what_is_dead() -> list[dict[str, Any]]:
    """Returns the marks of the runs that may still be alive."""
    undecided = []
    for left in await messages_with_marks():
        mark = unfinished_mark(left.status_history)
        if mark is None:
            continue
        if _owner_is_gone(mark):
            await _end_message(left, str(mark.get("run")))
        else:
            undecided.append(mark)
    return undecided


async def _end_message(left: MarkedMessage, run_id: str) -> None:
    changed = await edit_message(left.chat_id, left.message_id, end_as_interrupted)
    if changed is None:
        return
    _interrupted_log.info("run %s was interrupted by a restart", run_id)
    emitter = await emitter_for(left.user_id, left.chat_id, left.message_id)
    await emit(emitter, "status", changed["statusHistory"][-1])
    if changed.get("output"):
        await show_items(emitter, changed["output"])


def _owner_is_gone(mark: dict[str, Any]) -> bool:
    owner, expires = mark.get("owner"), mark.get("expires")
    if not isinstance(owner, str) or not isinstance(expires, (int, float)):
        return True
    return is_dead(Lease("", str(mark.get("run")), owner, float(expires)), time.time())


def end_as_interrupted(message: dict[str, Any]) -> None:
    """Put the sentence where the result would stand, and end the message and its status."""
    mark = unfinished_mark(message.get("statusHistory"))
    if mark is None:  # it ended by itself meanwhile
        return
    text = interrupted_text()
    if message.get("content") and not message.get("output"):
        message["content"] += text
    else:
        put_into_message(message, text_item(str(mark.get("run")), text))
    message["done"] = True
    status = ended_status("Interrupted by a restart")
    message["statusHistory"] = [*message["statusHistory"], status]


# ===== end owui_plugin/interrupted.py =====

# ===== begin owui_plugin/line_map.py =====

"""Blocks joined into the steps of a run, and their line numbers found again."""

_MOST_LINE_NOTES = 3


@dataclass(frozen=True, slots=True)
class _Span:
    """Lines ``first`` to ``last`` (from 1) of a step's program are a block's lines."""

    step: int
    first: int
    last: int
    block: int


class LineMap:
    """Tells which line of which block a line of a joined program is."""

    def __init__(self, spans: Sequence[_Span]) -> None:
        self._spans = tuple(spans)

    def locate(self, step: int, line: int) -> tuple[int, int] | None:
        """Block number and line in that block; None for a line that there is not."""
        for span in self._spans:
            if span.step == step and span.first <= line <= span.last:
                return span.block, line - span.first + 1
        return None

    def is_joined(self, step: int) -> bool:
        """Whether a step is of several blocks."""
        return sum(span.step == step for span in self._spans) > 1


def join_steps(blocks: Sequence[CodeBlock]) -> tuple[tuple[Step, ...], LineMap]:
    """The steps that run these blocks in order. Consecutive blocks of one language that
    joins are one step, so that names carry over as a reader expects.

    A block that must stand alone, by its language's pattern, is joined to nothing before it.
    Raises InvalidRequest for a block without a known language.
    """
    steps: list[Step] = []
    spans: list[_Span] = []
    for block in blocks:
        language = language_named(block.language)
        code = block.code if block.code.endswith("\n") else block.code + "\n"
        first = 1
        if steps and _joins_on(language, steps[-1], code):
            first = steps[-1].code.count("\n") + 1
            code = steps.pop().code + code
        steps.append(Step(language.name, code))
        spans.append(_Span(len(steps) - 1, first, code.count("\n"), block.number))
    return tuple(steps), LineMap(spans)


def line_notes(
    stderr: str, steps: Sequence[Step], line_map: LineMap, step: int
) -> tuple[str, ...]:
    """A few notes such as “Line 17 of main.py is line 3 of block 2.” for the places that
    the error output of a joined step names; the last ones, which are the innermost."""
    language = language_named(steps[step].language)
    if not (line_map.is_joined(step) and language.line_reference):
        return ()
    named = (int(line) for line in re.findall(language.line_reference, stderr))
    places = {line: line_map.locate(step, line) for line in named}
    file_name = language.file_for(steps[step].code)
    notes = [
        f"Line {line} of {file_name} is line {place[1]} of block {place[0]}."
        for line, place in places.items()
        if place
    ]
    return tuple(notes[-_MOST_LINE_NOTES:])


def _joins_on(language: Language, before: Step, code: str) -> bool:
    if not language.joins or before.language != language.name:
        return False
    alone = language.alone_pattern
    return not (alone and re.search(alone, code, re.MULTILINE))


# ===== end owui_plugin/line_map.py =====

# ===== begin owui_plugin/live_output.py =====

"""The end of a program's output, shown while it runs."""

_PREVIEW_CHARACTERS = 2048  # at most 4 KiB in any script that has two bytes a character
_PAUSE_SECONDS = 0.5


class LiveOutput:
    """Collects what a run prints and shows its last 2048 characters, twice a second at most.

    ``show`` is awaited with the text. A run that is over in half a second shows nothing here.
    """

    def __init__(self, show: Callable[[str], Awaitable[None]]) -> None:
        self._show = show
        self._tail = ""
        self._shown = ""

    def take(self, event: RunEvent) -> None:
        """Take an event of the run. Called by the run's feed, in a thread of that."""
        if event.kind == "text":
            self._tail = (self._tail + event.text)[-_PREVIEW_CHARACTERS:]

    async def run(self) -> None:
        """Show what is new, for ever: cancel it when the run is over."""
        while True:
            await asyncio.sleep(_PAUSE_SECONDS)
            tail = self._tail
            if tail != self._shown:
                self._shown = tail
                await self._show(_as_on_a_screen(tail))


def _as_on_a_screen(text: str) -> str:
    """Lines as they stand now: a carriage return begins the line anew."""
    lines = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return "\n".join(lines)


# ===== end owui_plugin/live_output.py =====

# ===== begin owui_plugin/chat_files.py =====

"""Which files belong to a chat up to a message, and under which names. Pure functions.

These are the files that people attached to the messages of the branch, and those that runs
under its messages made. A file that a run made takes the place of an older one of its name,
as in a folder; two attached files of one name are two files, and the second is renamed.
"""

_FILE_ADDRESS = re.compile(r"(?:^|/api/v1/files/)([\w-]{1,64})(?:/content)?(?:\?.*)?$")
_ATTACHMENTS = ("file", "image")
_LONGEST_BRANCH = 10_000
_MOST_NAMES = 20
_MISSING_FILE = re.compile(r"No such file or directory|FileNotFoundError|ENOENT")


@dataclass(frozen=True, slots=True)
class ChatFile:
    """A stored file and its name: the person's own, or the path in the work folder of the
    run that made it (``made``)."""

    file_id: str
    name: str
    made: bool = False


def branch_to(messages: Mapping[str, Any], message_id: str) -> list[dict[str, Any]]:
    """The messages from the first one to this one, by their parents, the oldest first."""
    branch: list[dict[str, Any]] = []
    seen: set[str] = set()
    current: Any = message_id
    while isinstance(current, str) and current not in seen:
        message = messages.get(current)
        if not isinstance(message, dict) or len(branch) >= _LONGEST_BRANCH:
            break
        seen.add(current)
        branch.append({**message, "id": current})
        current = message.get("parentId")
    return branch[::-1]


def attached_files(message: Mapping[str, Any]) -> list[ChatFile]:
    """The files that a person attached to a message: documents and images."""
    entries = message.get("files")
    if message.get("role") != "user" or not isinstance(entries, list):
        return []
    found = (_attached_file(entry) for entry in entries if isinstance(entry, dict))
    return [file for file in found if file is not None]


def files_of_question(question: Mapping[str, Any]) -> list[ChatFile]:
    """The files of a temporary chat's question. A document is not uploaded there, only its
    text is sent along: it is listed all the same, because a person expects it."""
    texts = [
        ChatFile(str(entry.get("id") or ""), str(entry.get("name") or ""))
        for entry in _dicts_in(question.get("files"))
        if entry.get("type") == "text"
    ]
    return [*attached_files({**question, "role": "user"}), *texts]


def _attached_file(entry: Mapping[str, Any]) -> ChatFile | None:
    if entry.get("type") not in _ATTACHMENTS:
        return None
    address = _FILE_ADDRESS.search(str(entry.get("id") or entry.get("url") or ""))
    if address is None:
        return None
    return ChatFile(address[1], str(entry.get("name") or ""))


def has_run(message: Mapping[str, Any]) -> bool:
    """Whether code was run under a message, or by it: only then can it have made files."""
    history, output = message.get("statusHistory"), message.get("output")
    return any(MARK in entry for entry in _dicts_in(history)) or any(
        is_result_item(entry) for entry in _dicts_in(output)
    )


def _dicts_in(entries: Any) -> Iterable[dict[str, Any]]:
    found = entries if isinstance(entries, list) else []
    return (entry for entry in found if isinstance(entry, dict))


def arrange_files(found: Sequence[ChatFile]) -> tuple[list[ChatFile], list[str]]:
    """The files for the work folder, each name once, in the order given (the oldest first);
    and a sentence for each file that had to be renamed."""
    placed: dict[str, ChatFile] = {}
    attached: set[str] = set()
    notes = []
    for file in found:
        if file.made:
            if is_input_name(file.name):  # else no program can have it under this name
                _place_made(placed, file)
        elif file.file_id not in attached:
            attached.add(file.file_id)
            own = work_name(file.name)
            folders = {name.partition("/")[0] for name in placed}
            name = unused_name(own, folders | placed.keys())
            placed[name] = ChatFile(file.file_id, name)
            if name != own:
                notes.append(
                    f"Another file is called “{own}” too; it is here as “{name}”."
                )
    return list(placed.values()), notes


def _place_made(placed: dict[str, ChatFile], file: ChatFile) -> None:
    """What the run found under this name, as a file or a folder, it has replaced."""
    name = file.name
    for other in list(placed):
        if other.startswith(name + "/") or name.startswith(other + "/"):
            del placed[other]
    placed.pop(name, None)  # the newest comes last
    placed[name] = file


def work_folder_note(
    result: RunResult, names: Sequence[str], data_targets: Sequence[str] = ()
) -> str:
    """What was in the work folder, and which data folders there are, after a run that missed
    a file; else empty."""
    failed = result.outcome is Outcome.FAILED
    if not failed or not _MISSING_FILE.search(str(result.output)[-8192:]):
        return ""
    data = (
        f" Data folders, read-only: {', '.join(data_targets)}." if data_targets else ""
    )
    if not names:
        return "The work folder was empty at the start: this chat has no files." + data
    shown = ", ".join(names[:_MOST_NAMES])
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"In the work folder at the start: {shown}{more}.{data}"


# ===== end owui_plugin/chat_files.py =====

# ===== begin owui_plugin/file_intake.py =====

"""The files of a chat on their way into a run: found, checked, opened."""

_intake_log = logging.getLogger("run_code.file_intake")
_FETCH_SECONDS = 60.0
_FOLDER_PAGE = 4096
_DELETED = "it was deleted"
_NEVER_STORED = "a temporary chat does not store what is attached to it"
_FOREIGN = "it belongs to someone else"
_UNREADABLE = "it could not be read"


@dataclass(frozen=True, slots=True)
class FilesIn:
    """What a run finds in its work folder, with the id of each stored file by its name, and a
    sentence for each that is missing or renamed."""

    files: tuple[InputFile, ...] = ()
    ids: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names in the work folder, sorted."""
        return sorted(file.name for file in self.files)

    def close(self) -> None:
        """The run has read them. Called when it is over."""
        for file in self.files:
            if file.content is not None:
                file.content.close()


async def files_for_run(
    user_id: str,
    chat_id: str,
    message_id: str,
    limits: Limits,
    attached: Sequence[ChatFile] = (),
) -> FilesIn:
    """The files of a chat up to a message, opened for a run of this person.

    ``attached``: files that a temporary chat, which is stored nowhere, says that it has. A
    file that cannot be had is told of in the notes; nothing is raised for it.
    """
    try:
        found = [*attached, *await _find_files(chat_id, message_id)]
        records = await file_records({file.file_id for file in found})
    except Exception:
        _intake_log.exception("the files of a chat could not be looked up")
        return FilesIn(notes=("The files of this chat could not be looked up.",))
    in_question = {file.file_id for file in attached}
    usable, notes = _sort_out(found, records, user_id, in_question)
    placed, renamed = arrange_files(usable)
    opened, missing = await _open_files(placed, records, limits)
    ids = {file.name: file.file_id for file in placed}
    return FilesIn(tuple(opened), ids, (*notes, *renamed, *missing))


async def _find_files(chat_id: str, message_id: str) -> list[ChatFile]:
    """Attached and made files along the branch, the oldest first."""
    found: list[ChatFile] = []
    for message in branch_to(await chat_messages(chat_id), message_id):
        found += attached_files(message)
        if has_run(message) or message["id"] == message_id:
            found += await _made_files(chat_id, message["id"])
    return found


async def _made_files(chat_id: str, message_id: str) -> list[ChatFile]:
    records = await file_records(await message_file_ids(chat_id, message_id))
    made = [record for record in records.values() if record.mark.get("kind") == "made"]
    made.sort(key=lambda record: float(record.mark.get("at") or 0))
    return [
        ChatFile(record.file_id, str(record.mark.get("path") or record.name), made=True)
        for record in made
    ]


def _sort_out(
    found: Iterable[ChatFile],
    records: dict[str, FileRecord],
    user_id: str,
    in_question: set[str],
) -> tuple[list[ChatFile], list[str]]:
    """The files that this person may use, and a sentence for each other one. ``in_question``:
    ids that only the question of a temporary chat tells; the browser may have made them up.
    """
    usable, notes = [], []
    for file in found:
        record = records.get(file.file_id)
        name = file.name or (record.name if record else "")
        if record is None or record.user_id != user_id:
            gone = _NEVER_STORED if file.file_id in in_question else _DELETED
            reason = gone if record is None else _FOREIGN
            notes.append(_missing_note(name, reason))
        else:
            usable.append(ChatFile(file.file_id, name, file.made))
    return usable, notes


async def _open_files(
    placed: Sequence[ChatFile], records: dict[str, FileRecord], limits: Limits
) -> tuple[list[InputFile], list[str]]:
    """Opens the newest first, because they are what the question is about. A quarter of the
    work folder stays free for the program."""
    room = limits.work_mib * MIB * 3 // 4
    files, notes = [], []
    for file in reversed(placed):
        try:
            content = await asyncio.wait_for(
                asyncio.to_thread(_open_stored, records[file.file_id].path),
                _FETCH_SECONDS,
            )
        except Exception:  # a storage provider raises whatever it likes
            _intake_log.warning("a file could not be read", exc_info=True)
            notes.append(_missing_note(file.name, _UNREADABLE))
            continue
        taken = InputFile(file.name, content=content)
        size = taken.size
        needed = -(-size // _FOLDER_PAGE) * _FOLDER_PAGE
        if needed > room:
            content.close()
            reason = f"there is no room in it for {size / MIB:.1f} MB"
            notes.append(_missing_note(file.name, reason))
            continue
        room -= needed
        files.append(taken)
    return files, notes


def _missing_note(name: str, reason: str) -> str:
    return f"“{name}” is not in the work folder: {reason}."


def _open_stored(path: str) -> IO[bytes]:
    if not path:
        raise FileNotFoundError("a file without a path")
    local = local_path(path)
    source = local.open("rb")
    if local == Path(path):
        return source
    # A remote storage writes each download to the same place: the next one would overwrite
    # the bytes under a run that still reads them.
    with source:
        copy = spooled_file()
        shutil.copyfileobj(source, copy)
    return copy


# ===== end owui_plugin/file_intake.py =====

# ===== begin owui_plugin/file_rendering.py =====

"""What a run made and showed as Markdown: pictures, players, links, the start of small texts.

Open WebUI's Markdown makes a player of an HTML block ``<audio>`` or ``<video>`` whose content
is the address. Every name is shown escaped, short in its middle, with its ending.
"""

_MOST_PICTURES = 12
_MOST_PLAYERS = 3
_MOST_LINKS = 30
_MOST_NOT_KEPT = 10
_MOST_PREVIEWS = 2
_PREVIEWED_UP_TO = 4  # files; of more, the list is enough to read
_PREVIEW_LINES = 15
_PARTIAL = " from a run that did not finish, maybe incomplete"
_ENDED = (Outcome.OK, Outcome.FAILED)
_TITLES = {"output": "the whole output", "archive": "all files in one archive"}


def file_address(file_id: str, download: bool = False) -> str:
    """Where Open WebUI serves a stored file, to those who may read it."""
    return f"/api/v1/files/{file_id}/content" + ("?attachment=true" if download else "")


def size_text(size: int) -> str:
    """A size for people: bytes, KB or MB (of 1024)."""
    if size < 1024:
        return f"{size} bytes" if size != 1 else "1 byte"
    if size < 1 << 20:
        return f"{size / 1024:.1f} KB"
    return f"{size / (1 << 20):.1f} MB"


def render_files(
    kept: KeptFiles, skipped: Sequence[SkippedFile], outcome: Outcome
) -> str:
    """Markdown for what a run made; empty when that is nothing. ``skipped``: what the sandbox
    did not hand over and the store did not take."""
    if not kept.files and not skipped:
        return ""
    made = [file for file in kept.files if file.kind == "made"]
    shown = [file for file in kept.files if file.kind == "shown"]
    pictures = [file for file in (*shown, *made) if is_image(file.media)]
    pictures = pictures[:_MOST_PICTURES]
    lines = [_image(file) for file in pictures]
    # A figure that is there to see needs no link.
    lines += _links(
        [file for file in kept.files if file not in pictures or file in made]
    )
    lines += _skipped_lines(skipped)
    heading = _files_heading(len(shown), len(made), outcome)
    parts = [result_section(heading, lines)]
    parts += list(_players(made))[:_MOST_PLAYERS]
    if len(made) <= _PREVIEWED_UP_TO:
        parts += [_preview(file) for file in made if file.start][:_MOST_PREVIEWS]
    return "\n".join(parts)


def deleted_note(names: Sequence[str]) -> str:
    """A sentence on old files that made room for new ones; empty when none had to."""
    if not names:
        return ""
    shown = ", ".join(f"“{short_name(name, 40)}”" for name in names[:_MOST_NOT_KEPT])
    more = len(names) - _MOST_NOT_KEPT
    rest = f" and {more} more" if more > 0 else ""
    return f"To make room, your oldest files from runs were deleted: {shown}{rest}."


def file_chips(kept: KeptFiles) -> list[dict[str, Any]]:
    """The same files as entries of Open WebUI's ``files`` event, for a chat whose messages
    are stored nowhere."""
    return [_chip(file) for file in kept.files]


def _chip(file: KeptFile) -> dict[str, Any]:
    if is_image(file.media):
        address = file_address(file.file_id)
        return {"type": "image", "url": address, "name": short_name(file.name)}
    return {
        "type": "file",
        "id": file.file_id,
        "url": file.file_id,
        "name": short_name(file.name),
        "size": file.size,
        "content_type": file.media,
    }


def _files_heading(shown: int, made: int, outcome: Outcome) -> str:
    counts = ((shown, "shown", "shown"), (made, "file", "files"))
    named = [f"{n} {one if n == 1 else many}" for n, one, many in counts if n]
    if not named:
        return "files"
    heading = " · ".join(named)
    return heading if outcome in _ENDED else heading + _PARTIAL


def _link_text(name: str) -> str:
    """A link text must not hold square brackets, not even escaped ones: round ones do."""
    return escape_markdown(short_name(name).replace("[", "(").replace("]", ")"))


def _image(file: KeptFile) -> str:
    return f"![{_link_text(file.name)}]({file_address(file.file_id)})"


def _links(files: Sequence[KeptFile]) -> list[str]:
    made = [file for file in files if file.kind == "made"]
    others = [file for file in files if file.kind != "made"]
    # With an archive at hand, nobody needs a hundred lines.
    most = _MOST_LINKS if len(made) > ARCHIVE_ABOVE else len(made)
    lines = [_link(file) for file in (*others, *made[:most])]
    if len(made) > most:
        lines.append(f"- and {len(made) - most} more, which are in the archive")
    return lines


def _link(file: KeptFile) -> str:
    about = f": {_TITLES[file.kind]}" if file.kind in _TITLES else ""
    address = file_address(file.file_id, download=True)
    return f"- [{_link_text(file.name)}]({address}) · {size_text(file.size)}{about}"


def _skipped_lines(skipped: Sequence[SkippedFile]) -> list[str]:
    """One line for each reason: a program may leave ten thousand things of a kind."""
    by_reason: dict[str, list[str]] = {}
    for entry in skipped:
        by_reason.setdefault(entry.reason, []).append(entry.name)
    lines = [
        f"- not kept: {_some_names(names)}{escape_markdown(reason)}"
        for reason, names in by_reason.items()
    ]
    return lines[:_MOST_NOT_KEPT]


def _some_names(names: Sequence[str]) -> str:
    named = [escape_markdown(short_name(name, 40)) for name in names if name]
    if not named:
        return ""
    shown = ", ".join(named[:_MOST_NOT_KEPT])
    more = len(named) - _MOST_NOT_KEPT
    return f"{shown} and {more} more: " if more > 0 else f"{shown}: "


def _players(files: Iterable[KeptFile]) -> Iterable[str]:
    for file in files:
        tag = "audio" if is_audio(file.media) else "video"
        if tag == "audio" or is_video(file.media):
            yield f"\n<{tag}>\n{file_address(file.file_id)}\n</{tag}>\n"


def _preview(file: KeptFile) -> str:
    text = file.start.decode("utf-8", "ignore").removeprefix("\ufeff")
    lines = text.splitlines(keepends=True)
    cut = len(lines) > _PREVIEW_LINES or len(file.start) < file.size
    shown = "".join(lines[:_PREVIEW_LINES]).rstrip("\n") + ("\n…" if cut else "")
    start = ", its start" if cut else ""
    return f"\n{_link_text(file.name)}{start}:\n\n{fenced(shown)}"


# ===== end owui_plugin/file_rendering.py =====

# ===== begin owui_plugin/run_files.py =====

"""The files of one run, from the chat into the work folder and from there into the store."""


class RunFiles:
    """What one run finds and leaves, and how people and model are told of it. Used once by
    the button and by the tool: bring_in, then keep, then the rest."""

    def __init__(
        self, place: Place, quota: Quota, data_targets: Sequence[str] = ()
    ) -> None:
        self._place = place
        self._quota = quota
        self._data_targets = data_targets
        self._found = FilesIn()
        self._kept = KeptFiles()
        self._embeds: list[str] = []

    async def bring_in(
        self, limits: Limits, attached: Sequence[ChatFile] = ()
    ) -> tuple[InputFile, ...]:
        """The files of the chat for a request with these limits. Raises nothing: what is
        missing is told in the notes."""
        place = self._place
        self._found = await files_for_run(
            place.user_id, place.chat_id, place.message_id, limits, attached
        )
        return self._found.files

    async def keep(self, result: RunResult, shown_bytes: int) -> RunResult:
        """Store what the run made and showed; returns the result with what was really stored.

        ``shown_bytes``: how much of the output is shown; when it is longer, it is stored too.
        """
        self._found.close()
        self._embeds = display_embeds(result)
        is_cut = result.output.omitted or _text_size(result) > shown_bytes
        # In a task of its own: half a file must not be left when the caller is cancelled.
        work = keep_files(self._place, result, self._quota, with_output=bool(is_cut))
        self._kept = await keep_task(work)
        return self._kept.applied_to(result)

    def notes(self, result: RunResult) -> list[str]:
        """Sentences for people and model: of files that are missing, renamed, not there, or
        deleted to make room."""
        deleted = deleted_note(self._kept.deleted)
        missed = work_folder_note(result, self._found.names, self._data_targets)
        return [*self._found.notes, *filter(None, (missed, deleted))]

    def markdown(self, result: RunResult) -> str:
        """The files as they are shown under the answer; empty when there are none."""
        return render_files(self._kept, result.skipped, result.outcome)

    @property
    def embeds(self) -> list[str]:
        """Interactive parts, as documents for an ``embeds`` event to the browser."""
        return self._embeds

    @property
    def chips(self) -> list[dict[str, Any]]:
        """The stored files, for an event to the browser."""
        return file_chips(self._kept)

    @property
    def addresses(self) -> dict[str, str]:
        """Where each file that was there or was made can be fetched, by its name."""
        ids = dict(self._found.ids)
        ids |= {file.name: file.file_id for file in self._kept.files}
        return {name: file_address(file_id) for name, file_id in ids.items()}


def _text_size(result: RunResult) -> int:
    return len(str(result.output).encode("utf-8", "replace"))


# ===== end owui_plugin/run_files.py =====

# ===== begin owui_plugin/update_notice.py =====

"""Tells an administrator that a newer version is out, where a setting says where to look.

The address gives the newest plugin file itself; its head has the version. It is asked at most
once in three days, whatever comes of it, and never while somebody waits. requests takes the
proxies of the environment.
"""

_SECONDS_BETWEEN = 3 * 24 * 3600
_ANSWER_SECONDS = 5
_HEAD_BYTES = 4096
_MEMORY = "run_code_update.json"
_VERSION_LINE = re.compile(r"^version:\s*(\d+(?:\.\d+){0,3})\s*$", re.MULTILINE)
_update_log = logging.getLogger("run_code.update")


async def tell_of_update(address: str, emitter: Emitter | None) -> None:
    """Show a notification when there is a newer version. Silent in every other case."""
    if not is_open_webui_here():
        return
    memory = data_folder() / _MEMORY
    newest = await asyncio.to_thread(newest_version, address, memory)
    if newer_version(newest, BUILD_ID.partition("+")[0]):
        text = (
            f"Run code {newest} is out. docs/setup.md says how to update (“Updating”)."
        )
        await emit(emitter, "notification", {"type": "info", "content": text})


def newest_version(address: str, memory: Path, now: float | None = None) -> str:
    """The version that the address has, if it is time to ask again; else, and when nobody
    answers, empty. ``memory`` is the file that remembers when that was."""
    import requests

    now = time.time() if now is None else now
    if 0 <= now - _asked_at(memory) < _SECONDS_BETWEEN:
        return ""
    try:
        memory.write_text(json.dumps({"asked": now}), "utf-8")
        with closing(
            requests.get(address, timeout=_ANSWER_SECONDS, stream=True)
        ) as answer:
            answer.raise_for_status()
            head = next(answer.iter_content(_HEAD_BYTES), b"")
    except OSError as error:  # those of requests are such, too
        _update_log.info("no word of a newer version: %r", error)
        return ""
    found = _VERSION_LINE.search(head.decode("utf-8", "replace"))
    return found[1] if found else ""


def newer_version(version: str, ours: str) -> bool:
    """Whether a version such as 1.10.0 comes after ours."""
    return _as_numbers(version) > _as_numbers(ours)


def _as_numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdigit()]


def _asked_at(memory: Path) -> float:
    try:
        return float(json.loads(memory.read_text("utf-8"))["asked"])
    except (OSError, ValueError, KeyError, TypeError):
        return float("-inf")


# ===== end owui_plugin/update_notice.py =====

# ===== begin owui_plugin/action.py =====

"""The Run code button: an Action under every answer that runs the code in it."""

_DOUBLE_CLICK_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Click:
    """One press of the button: whose, where, and the ways back to that browser.

    What goes to ``emitter`` Open WebUI stores too; ``teller`` only shows it.
    """

    user_id: str
    chat_id: str
    message_id: str
    is_admin: bool
    posted: dict[str, Any]
    stored: dict[str, Any] | None
    emitter: Emitter | None
    teller: Emitter | None
    caller: Any


class Action:
    """What Open WebUI loads: one button, called Run code."""

    Valves = ActionValves
    UserValves = PersonalValves

    def __init__(self) -> None:
        self.valves = self.Valves()
        mark_interrupted_runs_soon()

    async def action(
        self,
        body: dict[str, Any],
        __user__: dict[str, Any] | None = None,
        __event_emitter__: Any = None,
        __event_call__: Any = None,
    ) -> dict[str, Any] | None:
        """Run the code of the clicked message and put the result under it."""
        valves = self.valves
        user = __user__ or {}
        cancel = CancelToken()
        chat_id, message_id = str(body.get("chat_id")), str(body.get("id"))
        user_id = str(user.get("id"))
        claimed, entry = claim((user_id, chat_id, message_id), cancel)
        if claimed is None:
            await _second_click(entry, __event_call__)
            return None
        try:
            teller = await emitter_for(
                user_id, chat_id, message_id, str(body.get("session_id"))
            )
            click = _Click(
                user_id=user_id,
                chat_id=chat_id,
                message_id=message_id,
                is_admin=user.get("role") == "admin",
                posted=_clicked_message(body),
                stored=await stored_message(chat_id, message_id),
                emitter=__event_emitter__,
                teller=teller or __event_emitter__,
                caller=__event_call__,
            )
            settings = resolve_settings(valves, user.get("valves"), os.environ)
            if click.is_admin and settings.update_address:
                keep_task(tell_of_update(settings.update_address, click.emitter))
            return await _run_click(click, settings, cancel)
        except SandboxError as error:
            await _refuse_click(__event_emitter__, str(error))
            return None
        finally:
            claimed.release()


def _clicked_message(body: dict[str, Any]) -> dict[str, Any]:
    messages = body.get("messages")
    if not isinstance(messages, list):
        return {}
    clicked = [
        entry
        for entry in messages
        if isinstance(entry, dict) and entry.get("id") == body.get("id")
    ]
    return clicked[-1] if clicked else {}


async def _second_click(entry: dict[str, Any], caller: Any) -> None:
    """A double click is one click; a later one asks whether to stop the run."""
    if time.monotonic() - entry["since"] < _DOUBLE_CLICK_SECONDS:
        return
    if await ask_to_stop(caller):
        entry["cancel"]()


async def _refuse_click(emitter: Emitter | None, sentence: str) -> None:
    await emit(emitter, "status", ended_status(sentence))
    await emit(emitter, "notification", {"type": "warning", "content": sentence})


async def _run_click(
    click: _Click, settings: Settings, cancel: CancelToken
) -> dict[str, Any] | None:
    # The stored message knows which parts of the answer are tool calls, reasoning or ours.
    text = message_text(click.stored) or message_text(click.posted)
    blocks = find_blocks(text)
    candidates = await _candidates(blocks, click.caller)
    installs, programs, notes = _sort_blocks(candidates, settings)
    if not programs:
        sentence = notes[0] if notes else why_nothing_runs(blocks)
        await _refuse_click(click.emitter, sentence)
        _offer_check(click, settings, sentence)
        return None
    chosen = await choose_blocks(click.caller, programs, click.is_admin)
    if isinstance(chosen, str):
        await check_sandbox(settings.shared, click.emitter, click.caller)
        return None
    if not chosen or cancel.is_set():
        return None
    before = [block for block in installs if block.number < chosen[0].number]
    chosen = [*before, *chosen]
    notes += [NOT_CLOSED_NOTE for block in chosen if not block.closed]
    label = blocks_label(chosen, len(candidates))
    return await _run_blocks(click, settings, cancel, chosen, label, notes)


def _sort_blocks(
    candidates: Sequence[CodeBlock], settings: Settings
) -> tuple[list[CodeBlock], list[CodeBlock], list[str]]:
    """Blocks that install what a program after them needs, the programs to choose from, and a
    note on blocks that are neither. Blocks that install are programs where there are no others,
    and where programs have a network and nobody installs for them.
    """
    if reaches_out(settings.network) and not settings.may_install:
        return [], list(candidates), []
    others = [block for block in candidates if is_install(block)]
    programs = [block for block in candidates if block not in others]
    installs = []
    if settings.may_install:
        installs = [
            block
            for block in others
            if asks_for_packages(Step(block.language, block.code))
        ]
    notes = [INSTALLS_OFF_NOTE] if len(installs) < len(others) else []
    if not programs:
        installs, programs = [], installs
    return installs, programs, notes


def _offer_check(click: _Click, settings: Settings, sentence: str) -> None:
    """Ask an administrator, beside the click, which must not wait for the answer."""

    async def ask() -> None:
        if not await ask_to_check(click.caller, sentence):
            return
        try:
            await check_sandbox(settings.shared, click.emitter, click.caller)
        except SandboxError as error:
            await _refuse_click(click.emitter, str(error))

    if click.is_admin:
        keep_task(ask())


async def _candidates(blocks: Sequence[CodeBlock], caller: Any) -> list[CodeBlock]:
    """The runnable blocks; if there are none, the last untagged one in a language picked."""
    candidates = runnable(blocks)
    untagged = [block for block in blocks if block.kind is BlockKind.ASK]
    if candidates or not untagged:
        return candidates
    language = await choose_language(caller, untagged[-1])
    return [untagged[-1].in_language(language)] if language else []


async def _run_blocks(
    click: _Click,
    settings: Settings,
    cancel: CancelToken,
    chosen: Sequence[CodeBlock],
    label: str,
    notes: list[str],
) -> dict[str, Any] | None:
    steps, line_map = join_steps(chosen)
    place = Place(click.user_id, click.chat_id, click.message_id)
    files = RunFiles(place, settings.quota, settings.shared.data_targets)
    request = RunRequest(
        steps=steps,
        files=await files.bring_in(settings.limits),
        limits=settings.limits,
        user=click.user_id,
        chat=click.chat_id,
        network=settings.network,
    )
    run_id = request.run_id
    presenter = Presenter(
        click.chat_id,
        click.message_id,
        click.stored,
        message_text(click.posted),
        click.teller,
    )
    progress = Progress(
        label,
        run_id,
        settings.limits.seconds,
        lambda status: presenter.show_running(run_id, running_text(label), status),
    )
    live = LiveOutput(
        lambda preview: presenter.show_preview(run_id, running_text(label, preview))
    )
    ticket = start_run(
        "function",
        settings.shared,
        request,
        click.user_id,
        cancel,
        on_event=live.take,
        on_wait=progress.waiting,
        on_start=progress.running,
    )
    watch = keep_task(live.run())

    async def finish(result: RunResult) -> dict[str, Any] | None:
        watch.cancel()
        await progress.end()
        if result.failed_step is not None:
            places = line_notes(str(result.stderr), steps, line_map, result.failed_step)
            notes.extend(places)
        shown_bytes = settings.shown_output_kb * 1024
        if result.outcome is Outcome.SANDBOX_ERROR:
            _offer_check(click, settings, result.message)
        result = await files.keep(result, shown_bytes)
        notes.extend(files.notes(result))
        if files.embeds:
            await emit(click.emitter, "embeds", {"embeds": files.embeds})
        text = render_for_chat(result, label, shown_bytes, notes)
        return await presenter.show_result(
            run_id,
            text + files.markdown(result),
            progress.ended(result),
            files.addresses,
        )

    try:
        return await finish(await ticket.result())
    except asyncio.CancelledError:
        await finish(await ticket.stop())
        raise


if __name__ == "__main__":
    sys.exit(run_plugin_file("function"))

# ===== end owui_plugin/action.py =====
