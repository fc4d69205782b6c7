"""Packages by the button and by the tool, where an administrator allows them."""

import asyncio

import pytest

from tests.contract.package_index import opened_index
from tests.plugin.clicks import press

BACKTICKS = "```"
COW = "import cowsay\ncowsay.say('moo')\n"


@pytest.fixture(scope="module", autouse=True)
def packages_on(docker_host, image, mirror_image):
    with (
        opened_index(docker_host, image, mirror_image) as index,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("RUN_CODE_NETWORK", "packages")
        patch.setenv("RUN_CODE_PACKAGES_INDEX", index.url)
        patch.setenv("RUN_CODE_PACKAGES_NETWORK", index.network)
        yield


def block(language, code):
    return f"{BACKTICKS}{language}\n{code}{BACKTICKS}\n"


def test_p02_install_then_run(action):
    markdown = f"First:\n\n{block('bash', 'pip install cowsay' + chr(10))}\nThen:\n\n"
    text = press(action, markdown + block("python", COW)).text
    assert "cow says moo" in text
    assert "Installed for this run: cowsay 6.1." in text
    assert "site-packages" not in text
    only = press(action, block("bash", "pip install cowsay\n")).text
    assert "Installed for this run: cowsay 6.1." in only


def test_other_installers_are_not_run(action):
    markdown = (
        block("bash", "npm install left-pad\n") + "\n" + block("python", "print(1)\n")
    )
    text = press(action, markdown).text
    assert "Installing packages is off, so the block that does it was not run" in text


def test_the_tool_installs_what_it_is_asked_for(tools):
    tools.valves = tools.Valves()
    assert "packages names them" in tools.run_code.__doc__

    def call(code, **given):
        return asyncio.run(
            tools.run_code(
                code, __user__={"id": "u"}, __chat_id__="temporary:9", **given
            )
        )

    assert "stdout:\ncow says moo\n" in call(COW, packages=["cowsay"])
    assert "stdout:\ncow says moo\n" in call(f"!pip install cowsay\n{COW}")
    missing = call(COW)
    assert "name it in `packages`" in missing
    unknown = call("1", packages="nothing-like-it")
    assert "outcome: failed\nexit_code: 1\n" in unknown
    assert "has nothing for nothing-like-it" in unknown
