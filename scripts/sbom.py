#!/usr/bin/env python3
"""Print what a sandbox image is made of, as a CycloneDX document (JSON).

python scripts/sbom.py IMAGE >sbom.json      on the Docker Engine of DOCKER_HOST

The image's own databases are read, in a container of it without network: dpkg's, and the metadata
of Python's packages. The same image gives the same document.
"""

import argparse
import json
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

__all__ = ["SbomError", "document_of"]

_SECONDS = 120
_NAMESPACE = uuid.UUID("7d0f3c52-3c0e-5a57-9a61-6a7c1b1c1a60")
_PROGRAM = r"""
import importlib.metadata, json, platform, subprocess
fields = "${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\n"
told = subprocess.run(["dpkg-query", "--show", "--showformat", fields],
                      capture_output=True, text=True, check=True).stdout
pypi = [(entry.metadata["Name"], entry.version, entry.metadata.get("License-Expression", ""))
        for entry in importlib.metadata.distributions() if entry.metadata["Name"]]
system = platform.freedesktop_os_release()
print(json.dumps({"debian": [line.split("\t") for line in told.splitlines()], "pypi": pypi,
                  "system": [system["ID"], system.get("VERSION_ID", "")]}))
"""


class SbomError(Exception):
    """The image could not be read; the text says why."""


def document_of(name: str, image_id: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The document, by CycloneDX 1.6. ``facts`` are what the program in the container told."""
    # A package may be there twice, in two folders.
    components = {entry["purl"]: entry for entry in (*_debian(facts), *_pypi(facts))}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(_NAMESPACE, image_id)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": image_id,
                "name": name,
                "version": image_id,
            }
        },
        "components": [components[purl] for purl in sorted(components)],
    }


def _debian(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    system, release = facts["system"]
    for name, version, architecture, source, source_version in facts["debian"]:
        qualifiers = f"arch={architecture}&distro={system}-{release}"
        if source != name:
            qualifiers += f"&upstream={quote(f'{source}@{source_version}')}"
        path = f"{system}/{quote(name)}@{quote(version)}"
        yield _component(name, version, f"pkg:deb/{path}?{qualifiers}")


def _pypi(facts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, version, licence in facts["pypi"]:
        plain = name.lower().replace("_", "-")
        component = _component(name, version, f"pkg:pypi/{plain}@{quote(version)}")
        if licence:
            component["licenses"] = [{"expression": licence}]
        yield component


def _component(name: str, version: str, purl: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }


def _docker(*arguments: str) -> str:
    try:
        done = subprocess.run(
            ["docker", *arguments], capture_output=True, text=True, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SbomError(f"docker could not be asked: {error}") from error
    if done.returncode:
        raise SbomError(f"docker {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


def main() -> int:
    """Runs the command line; 1 when the image cannot be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("image", metavar="IMAGE")
    image = parser.parse_args().image
    closed = ("--rm", "--network=none", "--read-only", "--cap-drop=ALL", "--user=65534")
    try:
        image_id = _docker("image", "inspect", "--format", "{{.Id}}", image).strip()
        told = _docker(
            *("run", *closed, "--entrypoint=python3", image_id, "-I", "-c", _PROGRAM)
        )
        document = document_of(image, image_id, json.loads(told))
    except (SbomError, ValueError) as error:
        print(f"sbom: {error}", file=sys.stderr)
        return 1
    print(json.dumps(document, indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
