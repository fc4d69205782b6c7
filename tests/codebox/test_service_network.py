"""A service whose runs may have a network: by HTTP and by MCP, and what its records say."""

import json

from tests.codebox.test_mcp import call
from tests.contract.closed_world import opened_world

FETCH = (
    "import urllib.request\n"
    "print(urllib.request.urlopen('http://public.example/').status)\n"
)


def test_runs_have_a_network_where_the_service_and_the_caller_want_it(
    start_service, docker_host, image, egress_image
):
    with opened_world(docker_host, image, egress_image) as world:
        service = start_service(
            network="internet", egress_container=world.egress.container
        )
        reached = service.run(FETCH).json()
        refused = service.run(FETCH, network="packages").json()
        assert service.run(FETCH, network="all").status_code == 422
        tools, (told,) = call(service, ("run_code", {"code": FETCH}))
        log = world.log()
    assert reached["stdout"] == "200\n", reached
    assert refused["outcome"] == "failed"
    assert "Programs reach public hosts" in tools[0].description
    assert "200" in told.content[0].text
    lines = [
        json.loads(line) for line in service.log().splitlines() if '"run":' in line
    ]
    modes = {line["run"]: line["network"] for line in lines if "network" in line}
    assert list(modes.values()) == ["internet", "packages", "internet"]
    runs = [run for run, mode in modes.items() if mode == "internet"]
    assert [entry["run"] for entry in log] == runs
