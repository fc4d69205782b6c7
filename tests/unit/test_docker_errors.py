"""Each error that the docker SDK and its transport can raise becomes one of ours."""

import inspect
import socket

import docker.errors
import pytest
import requests.exceptions
import urllib3.exceptions

from sandbox_core.engines.docker_errors import docker_errors_mapped, engine_error_from
from sandbox_core.errors import (
    EngineError,
    EngineUnavailable,
    ImageMissing,
    RuntimeMissing,
    StartFailed,
)

ANSWERS = {"APIError", "NotFound", "ImageNotFound"}


def error_classes(module, base):
    return [
        pytest.param(kind, id=f"{module.__name__}.{name}")
        for name, kind in vars(module).items()
        if inspect.isclass(kind)
        and kind.__module__ == module.__name__
        and issubclass(kind, base)
        and not issubclass(kind, Warning)
    ]


CLASSES = [
    *error_classes(docker.errors, Exception),
    *error_classes(requests.exceptions, Exception),
    *error_classes(urllib3.exceptions, urllib3.exceptions.HTTPError),
]


def instance_of(kind):
    """An instance without its constructor, whose parameters differ from class to class."""
    error = kind.__new__(kind)
    Exception.__init__(error, "text")
    for name in ("response", "explanation"):
        error.__dict__.setdefault(name, None)
    for name in ("msg", "param", "name", "reason"):
        error.__dict__.setdefault(name, "text")
    for name in ("length", "partial", "expected"):
        error.__dict__.setdefault(name, 1)
    return error


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_is_mapped(kind):
    mapped = engine_error_from(instance_of(kind), "Docker")
    expected = StartFailed if kind.__name__ in ANSWERS else EngineUnavailable
    assert type(mapped) is expected
    assert kind.__name__ in mapped.detail
    assert kind.__name__ not in str(mapped)


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file or directory"),
        ConnectionRefusedError(111, "Connection refused"),
        BrokenPipeError(32, "Broken pipe"),
        socket.gaierror(-2, "Name or service not known"),
    ],
)
def test_errors_of_the_system_mean_that_it_cannot_be_reached(error):
    mapped = engine_error_from(error, "Docker")
    assert type(mapped) is EngineUnavailable
    assert "cannot be reached" in str(mapped)


def test_silence_and_refusal_have_their_own_sentences():
    slow = engine_error_from(
        requests.exceptions.ReadTimeout("Read timed out."), "Podman"
    )
    denied = engine_error_from(
        requests.exceptions.ConnectionError(
            "('Connection aborted.', PermissionError(13, 'x'))"
        ),
        "Docker",
    )
    assert "did not answer in time" in str(slow)
    assert "check Podman" in str(slow)
    assert "not allowed" in str(denied)
    assert isinstance(slow, EngineUnavailable)
    assert isinstance(denied, EngineUnavailable)


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        # Each is what Docker Engine 20.10 or later really answers.
        ("No such image: nowhere:1", ImageMissing, "image is not on this host"),
        (
            "unknown or invalid runtime name: nosuch",
            RuntimeMissing,
            "gVisor is not set up",
        ),
        ("Unknown runtime specified nosuch", RuntimeMissing, "gVisor is not set up"),
        (
            "failed to create shim task: OCI runtime create failed: unable to retrieve OCI "
            "runtime error (open /x/log.json: no such file or directory): fork/exec "
            "/usr/bin/runsc: no such file or directory: unknown",
            RuntimeMissing,
            "gVisor is not set up",
        ),
        (
            "OCI runtime start failed: starting container: starting root container: starting "
            'sandbox: error finding executable "python3" in PATH [/usr/bin]: no such file or '
            "directory: unknown",
            StartFailed,
            "has no python3",
        ),
        (
            "Conflict: removal of container x is already in progress",
            StartFailed,
            "refused",
        ),
    ],
)
def test_answers_of_the_daemon_name_the_cause(answer, kind, words):
    mapped = engine_error_from(
        docker.errors.APIError("400 Client Error", explanation=answer), "Docker"
    )
    assert type(mapped) is kind
    assert words in str(mapped)


def test_a_missing_package_is_named():
    mapped = engine_error_from(
        ModuleNotFoundError("No module named 'docker'", name="docker"), "Docker"
    )
    assert type(mapped) is EngineError
    assert "pip install docker" in str(mapped)


def test_a_fault_of_ours_stays_what_it_is():
    with pytest.raises(KeyError), docker_errors_mapped("Docker"):
        raise KeyError("ours")


def test_an_error_that_is_mapped_already_passes():
    error = ImageMissing("once")
    with pytest.raises(ImageMissing) as caught, docker_errors_mapped("Docker"):
        raise error
    assert caught.value is error


def test_no_sentence_shows_a_path_or_an_address():
    detail = (
        "HTTPConnectionPool(host='10.0.0.1'): /var/run/docker.sock: Connection refused"
    )
    sentence = str(
        engine_error_from(requests.exceptions.ConnectionError(detail), "Docker")
    )
    assert "10.0.0.1" not in sentence
    assert "sock" not in sentence
