"""A network for programs, by the button and by the tool, where an administrator allows it."""

import asyncio

import pytest

from tests.contract.closed_world import opened_world
from tests.plugin.clicks import press

BACKTICKS = "```"
FETCH = (
    "import urllib.request\n"
    "print(urllib.request.urlopen('http://public.example/').status)\n"
)


@pytest.fixture(scope="module", autouse=True)
def network_on(docker_host, image, egress_image):
    with (
        opened_world(docker_host, image, egress_image) as world,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RUN_CODE_NETWORK", "internet")
        patch.setenv("RUN_CODE_EGRESS_CONTAINER", world.egress.container)
        yield


def test_the_button_gives_programs_a_network(action):
    text = press(action, f"{BACKTICKS}python\n{FETCH}{BACKTICKS}\n").text
    assert "200" in text


def test_the_tool_says_what_is_reached_and_a_person_may_want_less(tools):
    tools.valves = tools.Valves()
    assert "Programs reach public hosts" in tools.run_code.__doc__
    assert "There is no network" not in tools.run_code.__doc__

    def call(**own):
        user = {"id": "u", "valves": tools.UserValves(**own)}
        return asyncio.run(
            tools.run_code(FETCH, __user__=user, __chat_id__="temporary:9")
        )

    assert "stdout:\n200\n" in call()
    less = call(network="none")
    assert "outcome: failed" in less
    assert "There is no network in the sandbox" in less
