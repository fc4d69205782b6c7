"""openwebui.compose.yaml: what is pinned, who holds what, and that its words are explained."""

import re
from pathlib import Path

import yaml

from codebox.settings import Settings, image_variables, variable_of
from scripts.bringup.packages import OPEN_WEBUI_VERSION

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "openwebui.compose.yaml").read_text("utf-8")
SERVICES = yaml.safe_load(TEXT)["services"]
# The secret comes in a file, and within its container codebox has one port.
NOT_HANDED_ON = {"CODEBOX_SECRET", "CODEBOX_PORT"}


def test_open_webui_is_the_version_that_is_tested():
    image = SERVICES["open-webui"]["image"]
    assert image.endswith(f"open-webui:v{OPEN_WEBUI_VERSION}}}")


def test_codebox_is_handed_every_setting():
    handed = {entry.partition("=")[0] for entry in SERVICES["codebox"]["environment"]}
    settings = {variable_of(name) for name in Settings.model_fields if name != "images"}
    wanted = settings | set(image_variables().values()) | {"CODEBOX_SECRET_FILE"}
    assert handed == wanted - NOT_HANDED_ON


def test_every_variable_is_explained():
    used = set(re.findall(r"(?<!\$)\$\{(\w+)", TEXT))
    explained = (ROOT / "docs/compose.md").read_text("utf-8")
    assert [name for name in sorted(used) if f"`{name}`" not in explained] == []


def test_only_codebox_has_the_socket_and_nobody_has_capabilities():
    for name, service in SERVICES.items():
        mounts = " ".join(service.get("volumes", ()))
        assert ("docker.sock" in mounts) == (name == "codebox")
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert not {"privileged", "cap_add", "devices"} & service.keys()


def test_only_open_webui_is_published():
    published = [name for name, service in SERVICES.items() if "ports" in service]
    assert published == ["open-webui"]
