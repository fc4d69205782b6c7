"""Valves and the environment: defaults, ranges, precedence, and errors that can be read."""

import logging
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from owui_plugin.settings import (
    LIMIT_OF_VALVE,
    Settings,
    SettingsError,
    describe_allowed,
    environment_name,
    resolve_settings,
)
from owui_plugin.valves import ActionValves, EveryValve, PersonalValves, ToolValves
from sandbox_core.errors import InvalidRequest
from sandbox_core.languages import find_language
from sandbox_core.limits import Limits, limit_records

AWK = """
[awk]
file_name = "main.awk"
run = ["awk", "-f", "{source}"]
version = ["awk", "-W", "version"]
self_test = { code = "BEGIN { print 1 }", expected_stdout = "1\\n" }
"""
SETTABLE = [name for name in EveryValve.model_fields if environment_name(name)]


def resolved(valves=None, user_valves=None, **environ):
    return resolve_settings(valves or ActionValves(), user_valves, environ)


def test_defaults_are_those_of_the_limits():
    assert resolved().limits == Limits()


def test_every_limit_has_one_valve():
    assert sorted(LIMIT_OF_VALVE.values()) == sorted(r.name for r in limit_records())


@pytest.mark.parametrize("valve", LIMIT_OF_VALVE)
def test_limit_valves_take_exactly_the_range_of_their_limit(valve):
    record = next(r for r in limit_records() if r.name == LIMIT_OF_VALVE[valve])
    for value in (record.low, record.high):
        limits = resolved(ActionValves(**{valve: value})).limits
        assert getattr(limits, record.name) == value
    for value in (record.low - 1, record.high + 1):
        with pytest.raises(ValidationError):
            ActionValves(**{valve: value})


def test_valves_are_what_open_webui_can_show():
    for model in (ActionValves, ToolValves, PersonalValves):
        schema = model.model_json_schema()
        assert "$defs" not in schema
        for name, entry in schema["properties"].items():
            assert entry["type"] in ("string", "integer", "number", "boolean"), name
            assert entry["description"].endswith("."), name


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"timeout_seconds": 0}, "greater than or equal to 0.1"),
        ({"memory_mb": "lots"}, "valid integer"),
        ({"cpus": float("nan")}, "cpus"),
        ({"image": "  "}, "at least 1 character"),
        ({"docker_host": "/var/run/docker.sock"}, "match pattern"),
        ({"max_concurrent_runs": 0}, "greater than or equal to 1"),
    ],
)
def test_bad_valve_is_refused_with_the_reason(values, reason):
    with pytest.raises(ValidationError, match=reason):
        ActionValves(**values)


def test_settings_of_each_plugin():
    assert resolved(ActionValves(shown_output_kb=9)).shown_output_kb == 9
    tool = resolved(ToolValves(model_output_kb=3))
    assert (tool.model_output_kb, tool.shown_output_kb) == (3, 16)


def test_environment_wins():
    settings = resolved(
        ActionValves(memory_mb=100, image="a"),
        RUN_CODE_MEMORY_MB="64",
        RUN_CODE_IMAGE=" b:1 \n",
        RUN_CODE_PULL_MISSING_IMAGE="yes",
        RUN_CODE_RUNTIME="",
    )
    assert settings.limits.memory_mib == 64
    assert settings.shared.image == "b:1"
    assert settings.shared.pull_missing_image is True
    assert settings.shared.runtime == "runsc"


def test_environment_error_names_variable_value_and_range():
    with pytest.raises(SettingsError) as caught:
        resolved(RUN_CODE_MEMORY_MB="lots")
    assert isinstance(caught.value, InvalidRequest)
    assert str(caught.value) == (
        "The environment variable RUN_CODE_MEMORY_MB must be a whole number from 32 to "
        "65536, not “lots”. Ask your administrator to correct it."
    )


def test_address_in_the_environment_is_not_told_to_people():
    with pytest.raises(SettingsError) as caught:
        resolved(RUN_CODE_DOCKER_HOST="secret@host")
    assert "RUN_CODE_DOCKER_HOST must be an address" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "secret" in caught.value.detail


def test_bad_environment_does_not_touch_the_making_of_valves(monkeypatch):
    monkeypatch.setenv("RUN_CODE_MEMORY_MB", "lots")
    assert ActionValves().memory_mb == Limits().memory_mib


def test_priority_is_no_variable(caplog):
    assert environment_name("priority") == ""
    resolved(RUN_CODE_PRIORITY="first")
    assert "RUN_CODE_PRIORITY" in caplog.text


def test_unknown_variable_is_warned_of_once(caplog):
    with caplog.at_level(logging.WARNING, "run_code.settings"):
        for _ in range(2):
            resolved(RUN_CODE_MEMROY_MB="1", OTHER="x", RUN_CODE_MODEL_OUTPUT_KB="1")
    assert [record.getMessage() for record in caplog.records] == [
        "The environment variable RUN_CODE_MEMROY_MB is no setting here."
    ]


def test_person_lowers_and_never_raises():
    admin = ActionValves(timeout_seconds=20, memory_mb=200)
    own = PersonalValves(timeout_seconds=60, memory_mb=100)
    limits = resolved(admin, own).limits
    assert (limits.seconds, limits.memory_mib) == (20, 100)
    assert resolved(admin, PersonalValves()).limits == resolved(admin).limits


@pytest.mark.parametrize("values", [{"timeout_seconds": 0.01}, {"memory_mb": 3}])
def test_person_cannot_go_below_what_a_limit_allows(values):
    with pytest.raises(ValidationError, match="use 0, or at least"):
        PersonalValves(**values)


@given(
    st.builds(PersonalValves, timeout_seconds=st.just(0) | st.floats(0.1, 3600)),
    st.floats(0.1, 3600),
)
def test_personal_time_limit_is_never_above_the_administrators(own, seconds):
    admin = ToolValves(timeout_seconds=seconds)
    assert resolved(admin, own).limits.seconds <= admin.timeout_seconds


@given(
    st.sampled_from(SETTABLE),
    st.text(max_size=12) | st.floats().map(str) | st.integers().map(str),
)
def test_any_text_in_the_environment_gives_settings_or_a_readable_error(name, text):
    variable = environment_name(name)
    try:
        said = resolved(**{variable: text})
    except SettingsError as error:
        said = str(error)
    readable = f"{variable} must be {describe_allowed(name)}"
    assert isinstance(said, Settings) or readable in said


def test_shared_key_tells_engines_and_queues_apart_and_nothing_else():
    base = resolved().shared.key
    assert base == resolved(ToolValves()).shared.key
    assert (
        base == resolved(ActionValves(timeout_seconds=1, shown_output_kb=1)).shared.key
    )
    other = ActionValves(
        codebox_url="http://codebox:8000",
        codebox_secret="s" * 32,
        codebox_timeout=60,
        docker_host="tcp://host:1",
        runtime="r",
        runsc_path="/r",
        runsc_sha512="0" * 128,
        runsc_address="https://mirror/runsc",
        image="i",
        images_folder="/i",
        pull_missing_image=True,
        self_test=False,
        accept_unproven="disk-limit",
        network="packages",
        egress_container="e",
        egress_subnets="10.0.0.0/24",
        packages_index="http://10.0.0.2:5000/index/",
        packages_network="n",
        network_runtime="r",
        packages_mb=1,
        packages_seconds=1,
        packages_allowed="a",
        packages_denied="b",
        max_concurrent_runs=1,
        max_concurrent_runs_per_user=1,
        max_waiting_runs=1,
        warm_sandboxes=2,
        warm_idle_minutes=1,
        warm_memory_mb=128,
        warm_modules="json",
        languages=AWK,
    )
    # These two exclude each other.
    changed = replace(resolved(other).shared, data_folders="a=/srv/a").key
    assert all(ours != theirs for ours, theirs in zip(base, changed, strict=True))
    assert {type(value) for value in base} <= {str, bool, int, float}
    assert hash(resolved()) == hash(resolved())


def test_backend_is_settled():
    service = {"codebox_url": "http://codebox:8000", "codebox_secret": "s" * 32}
    for valves, backend, url in (
        ({}, "docker", ""),
        (service, "codebox", "http://codebox:8000"),
        ({**service, "backend": "docker"}, "docker", ""),
        ({**service, "backend": "podman"}, "podman", ""),
    ):
        shared = resolved(ActionValves(**valves)).shared
        assert (shared.backend, shared.codebox_url) == (backend, url)


def test_shared_settings_are_valves():
    names = {entry.name for entry in fields(resolved().shared)}
    assert names < EveryValve.model_fields.keys()


CODEBOX = {"CODEBOX_API_URL": "http://codebox:8000", "CODEBOX_SECRET": "s" * 32}


def test_runs_go_to_the_service_when_its_address_is_set():
    assert resolved().shared.codebox_url == ""
    assert resolved(**CODEBOX).shared.codebox_url == "http://codebox:8000"
    chosen = resolved(**CODEBOX, RUN_CODE_BACKEND="docker").shared
    assert chosen.codebox_url == ""
    assert "s" * 32 not in repr(resolved(**CODEBOX))


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"RUN_CODE_BACKEND": "codebox"}, "CODEBOX_API_URL"),
        ({**CODEBOX, "CODEBOX_SECRET": "short"}, "CODEBOX_SECRET"),
        ({**CODEBOX, "CODEBOX_API_URL": "codebox:8000"}, "CODEBOX_API_URL"),
        ({"RUN_CODE_BACKEND": "cloud"}, "must be auto, codebox, docker"),
    ],
)
def test_service_that_cannot_be_called_is_told(environ, words):
    with pytest.raises(SettingsError, match=words):
        resolved(**environ)


def test_data_folders_are_checked_as_they_are_written():
    valves = ToolValves(data_folders="sales=/srv/sales")
    assert resolve_settings(valves, None, {}).shared.data_targets == ("/data/sales",)
    with pytest.raises(ValidationError, match="/etc"):
        ToolValves(data_folders="x=/etc")
    environ = {"RUN_CODE_DATA_FOLDERS": "x=/etc"}
    with pytest.raises(
        SettingsError, match=r"must be name=/path entries.*“x” cannot be used.*/etc"
    ):
        resolve_settings(valves, None, environ)


def test_languages_are_read_from_their_file_at_each_use(tmp_path):
    file = tmp_path / "languages.toml"
    file.write_text(AWK)
    environ = {"RUN_CODE_LANGUAGES": str(file)}
    assert resolve_settings(ToolValves(), None, environ).shared.languages == AWK
    assert find_language("awk") is not None
    valves = ToolValves(languages=str(file))
    file.write_text(AWK.replace("awk", "gawk"))
    resolve_settings(valves, None, {})
    assert (find_language("awk"), find_language("gawk").name) == (None, "gawk")
    file.write_text("[x]")
    with pytest.raises(InvalidRequest, match="x: file_name is missing"):
        resolve_settings(valves, None, {})
    with pytest.raises(InvalidRequest, match="x: file_name is missing"):
        resolve_settings(ToolValves(), None, environ)
    with pytest.raises(
        SettingsError, match=r"RUN_CODE_LANGUAGES must be .*x: file_name is missing"
    ):
        resolved(RUN_CODE_LANGUAGES="[x]")
    resolved()
    assert find_language("gawk") is None


def test_data_folders_belong_to_the_engine_and_not_to_a_service():
    environ = {
        "CODEBOX_API_URL": "http://codebox:8000",
        "CODEBOX_SECRET": "s" * 32,
        "RUN_CODE_DATA_FOLDERS": "sales=/srv/sales",
    }
    with pytest.raises(SettingsError, match="CODEBOX_DATA_FOLDERS"):
        resolve_settings(ToolValves(), None, environ)


def test_packages_are_off_until_an_index_is_named():
    assert resolved().shared.installs is None
    with pytest.raises(SettingsError, match="no index to take them from"):
        resolved(RUN_CODE_NETWORK="packages")
    index = {"RUN_CODE_PACKAGES_INDEX": "http://10.0.0.2:5000/index/"}
    on = {"RUN_CODE_NETWORK": "packages", **index}
    shared = resolved(**on, RUN_CODE_PACKAGES_DENIED="Bad_One, x").shared
    assert resolved(**on).may_install
    assert shared.installs.network == "run-code-packages"
    assert shared.installs.denied == {"bad-one", "x"}
    for backend in ("podman", "runsc"):
        with pytest.raises(SettingsError, match=f"backend {backend}"):
            resolved(**on, RUN_CODE_BACKEND=backend)


def test_a_person_lowers_the_network_and_never_raises_it():
    index = {"RUN_CODE_PACKAGES_INDEX": "http://10.0.0.2:5000/index/"}
    for ceiling, wish, outcome in (
        ("none", "internet", "none"),
        ("packages", "internet", "packages"),
        ("allowlist", "internet", "allowlist"),
        ("internet", "allowlist", "allowlist"),
        ("internet", "none", "none"),
        ("internet", "", "internet"),
    ):
        environ = {"RUN_CODE_NETWORK": ceiling, **index}
        own = PersonalValves(network=wish)
        settings = resolve_settings(ActionValves(), own, environ)
        assert settings.network == outcome
        assert settings.shared.networks.mode == ceiling
        assert settings.may_install == (outcome != "none")
    with pytest.raises(ValidationError):
        PersonalValves(network="everything")


def test_programs_have_a_network_with_docker_only():
    settings = resolved(RUN_CODE_NETWORK="internet")
    assert settings.shared.networks.egress.container == "run-code-egress"
    assert not settings.may_install
    assert resolved(**CODEBOX, RUN_CODE_NETWORK="internet").may_install
    for backend in ("podman", "runsc"):
        with pytest.raises(SettingsError, match="Docker only"):
            resolved(RUN_CODE_NETWORK="internet", RUN_CODE_BACKEND=backend)
    for subnets, words in (
        ("203.0.113.0/24", "no private network"),
        ("10.0.0.0/28", "/27 or larger"),
        ("10.0.0.1/24", "no IPv4 network"),
    ):
        with pytest.raises(SettingsError, match=words):
            resolved(RUN_CODE_EGRESS_SUBNETS=subnets)
