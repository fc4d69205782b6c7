"""A package index for tests: a few wheels on a server of their own, and the real mirror before
it, on networks that lead nowhere else."""

import io
import os
import secrets
import tarfile
import time
import zipfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import docker

__all__ = ["PackageIndex", "opened_index", "start_server"]

READY_SECONDS = 60
MEBIBYTE = os.urandom(1 << 20)
COW = "def say(text):\n    print(f'cow says {text}')\n"
SERVE = ["python3", "-m", "http.server", "8080", "--directory", "/srv"]


@dataclass(frozen=True)
class PackageIndex:
    """``url`` and ``network`` are as in InstallSettings; ``server`` is where the wheels are,
    behind the mirror, and ``log`` gives what it was asked for."""

    url: str
    network: str
    server: tuple[str, int]
    log: object


def wheel(name, version, files, **metadata):
    """(file name, content) of a wheel."""
    folder = f"{name}-{version}.dist-info"
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}"]
    lines += [f"{key.replace('_', '-')}: {value}" for key, value in metadata.items()]
    files = files | {
        f"{folder}/METADATA": "\n".join(lines) + "\n",
        f"{folder}/WHEEL": (
            "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{folder}/RECORD"))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, data in (files | {f"{folder}/RECORD": record}).items():
            archive.writestr(path, data)
    return f"{name}-{version}-py3-none-any.whl", content.getvalue()


def all_files():
    """What the server has, by path below its root."""
    wheels = [
        wheel("cowsay", "6.1", {"cowsay.py": COW}),
        wheel("cowsay", "5.0", {"cowsay.py": COW.replace("cow", "calf")}),
        wheel("mebibyte", "1.0", {"mebibyte/__init__.py": "", "mebibyte/x": MEBIBYTE}),
        wheel("huge", "1.0", {"huge.py": "", "huge.dat": os.urandom(40 << 20)}),
        wheel("herd", "1.0", {"herd.py": "import cowsay\n"}, Requires_Dist="cowsay"),
        wheel("future", "1.0", {"future.py": ""}, Requires_Python=">=9"),
        ("source-1.0.tar.gz", b"never unpacked"),
    ]
    files = {f"files/{name}": content for name, content in wheels}
    projects = sorted({name.partition("-")[0] for name, _ in wheels})
    links = [f'<a href="{project}/">{project}</a>\n' for project in projects]
    files["simple/index.html"] = "".join(links).encode()
    for name, _ in wheels:
        project = name.partition("-")[0]
        page = f"simple/{project}/index.html"
        requires = ' data-requires-python="&gt;=9"' if project == "future" else ""
        link = f'<a href="../../files/{name}"{requires}>{name}</a>\n'.encode()
        files[page] = files.get(page, b"") + link
    return files


@contextmanager
def opened_index(docker_host, image, mirror_image):
    """A PackageIndex whose networks and containers are gone afterwards."""
    api = docker.APIClient(docker_host, timeout=60)
    suffix = secrets.token_hex(4)
    with ExitStack() as undo:
        undo.callback(api.close)
        back = make_network(api, undo, f"run-code-test-back-{suffix}")
        front = make_network(api, undo, f"run-code-test-front-{suffix}")
        server = start_server(api, undo, image, back)
        upstream = f"http://{address_in(api, server, back)}:8080/simple/"
        mirror = make_container(
            api, undo, mirror_image, None, back, {"PIP_INDEX_URL": upstream}
        )
        api.connect_container_to_network(mirror, front)
        api.start(mirror)
        wait_for_mirror(api, mirror)
        yield PackageIndex(
            f"http://{address_in(api, mirror, front)}:5000/index/",
            front,
            (address_in(api, server, back), 8080),
            lambda: api.logs(server).decode(),
        )


def start_server(api, undo, image, network, aliases=()):
    """The id of a container on this network that serves ``all_files`` on port 8080."""
    server = make_container(api, undo, image, SERVE, network, {}, aliases)
    api.put_archive(
        server, "/", as_tar({f"srv/{p}": d for p, d in all_files().items()})
    )
    api.start(server)
    return server


def make_network(api, undo, name):
    """An internal network on which even this machine has no address."""
    options = {"com.docker.network.bridge.inhibit_ipv4": "true"}
    made = api.create_network(name, driver="bridge", internal=True, options=options)
    undo.callback(api.remove_network, made["Id"])
    return name


def make_container(api, undo, image, command, network, environment, aliases=()):
    """The id of a container of ours, not started yet."""
    made = api.create_container(
        image,
        command,
        environment=environment,
        host_config=api.create_host_config(network_mode=network),
        networking_config=api.create_networking_config(
            {network: api.create_endpoint_config(aliases=list(aliases))}
        ),
    )
    undo.callback(api.remove_container, made["Id"], force=True, v=True)
    return made["Id"]


def address_in(api, container, network):
    return api.inspect_container(container)["NetworkSettings"]["Networks"][network][
        "IPAddress"
    ]


def as_tar(files):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for path, data in files.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return content.getvalue()


def wait_for_mirror(api, mirror):
    """Until it answers itself: nobody else can reach it."""
    ask = (
        "import urllib.request as r\n"
        "url, accept = 'http://127.0.0.1:5000/index/cowsay/', {'Accept': 'text/html'}\n"
        "r.urlopen(r.Request(url, headers=accept), timeout=5)"
    )
    deadline = time.monotonic() + READY_SECONDS
    while True:
        run = api.exec_create(mirror, ["python3", "-c", ask])
        api.exec_start(run["Id"])
        if api.exec_inspect(run["Id"])["ExitCode"] == 0:
            return
        assert time.monotonic() < deadline, api.logs(mirror).decode()
        time.sleep(0.3)
