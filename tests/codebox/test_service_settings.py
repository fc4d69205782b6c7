"""Settings: every fault at once, and nothing secret in what is said."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from codebox.__main__ import main
from codebox.example import example_file
from codebox.settings import Settings, variable_of
from codebox.settings_loading import SettingsFault, load_settings
from sandbox_core.limits import limit_records
from tests.codebox.tokens import SECRET

ROOT = Path(__file__).resolve().parents[2]
GOOD = {"CODEBOX_SECRET": SECRET}


def faults_of(environ):
    with pytest.raises(SettingsFault) as caught:
        load_settings(environ)
    return caught.value.faults


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ("", "empty"),
        ("short-but-with-many-letters", "fewer than 32 bytes"),
        ("a" * 40, "repeats"),
        ("change-me-change-me-change-me-change-me", "example"),
        ("please-REPLACE-this-with-32-random-bytes", "example"),
        ("your-secret-here-0123456789-0123456789", "example"),
    ],
)
def test_a10_weak_secret_is_refused(secret, reason):
    (fault,) = faults_of({"CODEBOX_SECRET": secret})
    assert fault.startswith("CODEBOX_SECRET: ")
    assert reason in fault
    assert len(secret) < 2 or secret not in fault


def test_a10_service_does_not_start_and_says_why():
    environ = {**os.environ, "CODEBOX_SECRET": "short", "CODEBOX_PORT": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "codebox"], env=environ, capture_output=True, timeout=60
    )
    assert done.returncode == 78
    assert b"CODEBOX_SECRET: it has fewer than 32 bytes" in done.stderr
    assert b"CODEBOX_PORT" in done.stderr
    assert b"Traceback" not in done.stderr


def test_all_faults_are_told_at_once():
    faults = faults_of(
        {
            "CODEBOX_SECRET": "short",
            "CODEBOX_EXEC_TIMEOUT": "1e9",
            "CODEBOX_MAX_CONCURRENT": "many",
            "CODEBOX_STORAGE_URL": "postgres://x",
            "OWUI_SESSION_TOKENS": "true",
            "OWUI_USER_JWT_SECRET": "short-too",
        }
    )
    told = sorted(fault.partition(":")[0] for fault in faults)
    assert told == [
        "CODEBOX_EXEC_TIMEOUT",
        "CODEBOX_MAX_CONCURRENT",
        "CODEBOX_SECRET",
        "CODEBOX_STORAGE_URL",
        "OWUI_BASE_URL",
        "OWUI_USER_JWT_SECRET",
    ]
    assert "short" not in " ".join(faults)


def test_added_languages_come_in_a_file_and_each_may_have_an_image(tmp_path):
    file = tmp_path / "languages.toml"
    record = {
        "file_name": "main.x",
        "run": ["x", "{source}"],
        "version": ["x", "-v"],
        "image": "image-of-x",
        "self_test": {"code": "", "expected_stdout": ""},
    }
    file.write_text(json.dumps({"x": record, "y": record | {"image": ""}}))
    settings = load_settings({**GOOD, "CODEBOX_LANGUAGES": str(file)})
    assert [entry.name for entry in settings.added_languages] == ["x", "y"]
    images = [settings.image_for(name) for name in ("x", "y", "python")]
    assert images == ["image-of-x", settings.image, settings.image]
    file.write_text(json.dumps({"x": record | {"run": []}, "y": {}}))
    (fault,) = faults_of({**GOOD, "CODEBOX_LANGUAGES": str(file)})
    assert fault.startswith("CODEBOX_LANGUAGES: ")
    assert "x: run must have words" in fault
    assert "y: self_test is missing" in fault


def test_secret_of_open_webui_is_not_ours():
    (fault,) = faults_of({**GOOD, "OWUI_USER_JWT_SECRET": SECRET})
    assert fault.startswith("CODEBOX_SECRET: ")


def test_environment_wins_over_the_file(tmp_path):
    file = tmp_path / ".env"
    file.write_text(f"CODEBOX_SECRET={SECRET}\nCODEBOX_PORT=81\nCODEBOX_IMAGE=mine\n")
    settings = load_settings({"CODEBOX_PORT": "82", "CODEBOX_IMAGE": ""}, file)
    assert (settings.port, settings.image) == (82, "mine")
    assert SECRET not in repr(settings)


def test_secret_may_be_in_a_file(tmp_path):
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    settings = load_settings({"CODEBOX_SECRET_FILE": str(file)})
    assert settings.secret.get_secret_value() == SECRET
    faults = faults_of({"CODEBOX_SECRET_FILE": str(tmp_path / "none")})
    assert faults[0].startswith("CODEBOX_SECRET_FILE: ")


def test_secrets_are_made_up_once_and_for_owner_and_group(tmp_path):
    files = [tmp_path / name for name in ("first", "second")]
    command = ["secret", *map(str, files)]
    assert main(command) == 0
    made = [file.read_text("ascii").strip() for file in files]
    assert made[0] != made[1]
    assert all(len(secret) == 64 for secret in made)
    assert [file.stat().st_mode & 0o777 for file in files] == [0o440] * 2
    files[1].unlink()
    assert main(command) == 0
    assert files[0].read_text("ascii").strip() == made[0]
    assert files[1].read_text("ascii").strip() not in made
    assert sorted(tmp_path.iterdir()) == files
    load_settings({"CODEBOX_SECRET_FILE": str(files[0])})


def test_secret_that_cannot_be_written_is_told_in_words(tmp_path, capsys):
    assert main(["secret", str(tmp_path / "none" / "secret")]) == 1
    assert "cannot be written: No such file" in capsys.readouterr().err


def test_each_limit_has_a_setting():
    settings = load_settings({**GOOD, "CODEBOX_EXEC_TIMEOUT": "7"})
    assert settings.limits.seconds == 7
    extras = [field.json_schema_extra or {} for field in Settings.model_fields.values()]
    named = [extra["limit"] for extra in extras if "limit" in extra]
    assert sorted(named) == sorted(record.name for record in limit_records())


def test_languages_may_have_images_of_their_own():
    settings = load_settings({**GOOD, "CODEBOX_IMAGE_BASH": "mine"})
    assert settings.image_for("bash") == "mine"
    assert settings.image_for("python") == "run-code-python:latest"


def test_variables_are_named_after_their_settings():
    assert variable_of("max_concurrent") == "CODEBOX_MAX_CONCURRENT"
    assert variable_of("owui_base_url") == "OWUI_BASE_URL"
    assert variable_of("docker_host") == "DOCKER_HOST"


def test_example_file_is_in_step_and_changes_nothing(tmp_path):
    example = (ROOT / ".env.example").read_text("utf-8")
    assert example == example_file(), "run: python -m codebox settings > .env.example"
    file = tmp_path / ".env"
    text = example.replace("\n#CODEBOX_", "\nCODEBOX_").replace("\n#OWUI_", "\nOWUI_")
    file.write_text(text.replace("CODEBOX_SECRET=\n", f"CODEBOX_SECRET={SECRET}\n"))
    assert load_settings({}, file) == load_settings(GOOD)


@pytest.mark.parametrize("engine", ["podman", "runsc"])
@pytest.mark.parametrize("mode", ["packages", "allowlist", "internet"])
def test_a_network_needs_docker(engine, mode):
    environ = {
        **GOOD,
        "CODEBOX_NETWORK": mode,
        "CODEBOX_CONTAINER_BACKEND": engine,
        "CODEBOX_PACKAGES_INDEX": "http://10.0.0.2:5000/index/",
    }
    (fault,) = faults_of(environ)
    assert fault == (
        f"CODEBOX_NETWORK: the engine {engine} has no network for it; Docker has."
    )


def test_networks_of_runs_are_private():
    environ = {**GOOD, "CODEBOX_EGRESS_SUBNETS": "8.0.0.0/8"}
    (fault,) = faults_of(environ)
    assert fault.startswith("CODEBOX_EGRESS_SUBNETS: it is no private network")
