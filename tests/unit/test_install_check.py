"""What scripts/install_plugins.py --check says of what a server told."""

from dataclasses import replace

import pytest

from scripts.bringup.check import Observed, judge
from scripts.bringup.plugins import Plugin

FUNCTION = Plugin("functions", "run_code", "the button", {"version": "2.0"})
TOOL = Plugin("tools", "run_code", "the tool", {"version": "2.0"})
EVERYBODY = [{"principal_type": "user", "principal_id": "*", "permission": "read"}]
WITH_BUTTON = {"id": "gpt", "actions": [{"id": "run_code"}]}
WELL = Observed(
    features={"enable_functions": True, "enable_tools": True},
    function={"content": "the button", "is_active": True, "is_global": True},
    tool={"content": "the tool", "access_grants": EVERYBODY},
    models=[WITH_BUTTON],
    public_models=frozenset({"gpt"}),
    trial="Run code · Python · ok\n\nhello from the check",
)
OLD = {"content": "another", "meta": {"manifest": {"version": "1.0"}}}


def told(observed: Observed) -> tuple[str, str]:
    """What is well, and what is not."""
    verdicts = judge(observed, FUNCTION, TOOL)
    assert all(verdict.mend for verdict in verdicts if not verdict.ok)
    return tuple(
        "\n".join(verdict.text for verdict in verdicts if verdict.ok is well)
        for well in (True, False)
    )


def test_all_is_well():
    well, wrong = told(WELL)
    assert wrong == ""
    for words in ("1 of 1 models", "Everybody may use", "ran a program", "Every user"):
        assert words in well


def test_a_server_without_switches_is_no_fault():
    assert told(replace(WELL, features={}))[1] == ""


def changed(**fields):
    return replace(WELL, function={**WELL.function, **fields})


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (replace(WELL, features={"enable_functions": False}), "Functions are switched"),
        (replace(WELL, features={"enable_tools": False}), "Tools are switched off"),
        (replace(WELL, function=None), "There is no Function with the id 'run_code'"),
        (replace(WELL, tool=None), "There is no Tool with the id 'run_code'"),
        (changed(**OLD), "version 1.0 there, 2.0 here"),
        (changed(is_active=False), "The Function is switched off"),
        (
            replace(changed(is_global=False), models=[{"id": "gpt"}]),
            "active, but not global",
        ),
        (replace(WELL, models=()), "The server has no models"),
        (replace(WELL, models=[{"id": "gpt"}]), "0 of 1 models have the button"),
        (
            replace(WELL, trial="could not run\n\nThe package is missing."),
            "It said: could not run The package is missing.",
        ),
        (
            replace(WELL, tool={**WELL.tool, "access_grants": []}),
            "Only administrators may use the Tool",
        ),
    ],
)
def test_what_is_wrong_is_said_with_its_mend(observed, words):
    assert words in told(observed)[1]


def test_named_models_are_enough_for_a_function_that_is_not_global():
    well, wrong = told(changed(is_global=False))
    assert "only models that name it" in well
    assert wrong == ""


def test_who_may_use_what_is_told():
    some = [{"principal_type": "group", "principal_id": "g", "permission": "read"}]
    many = [{**WITH_BUTTON, "id": f"m{number}"} for number in range(7)]
    observed = replace(WELL, models=many, tool={**WELL.tool, "access_grants": some})
    well = told(observed)[0]
    assert "Some users or groups may use the Tool" in well
    assert "Only some people may use these models" in well
    assert "(m0, m1, m2, m3, m4 and 2 more)" in well


def test_where_the_tool_is_switched_on():
    assert "in every chat" in told(replace(WELL, usual_tools=["run_code"]))[0]
    model = {**WITH_BUTTON, "info": {"meta": {"toolIds": ["run_code"]}}}
    assert "for some models (gpt)" in told(replace(WELL, models=[model]))[0]
    assert "for no model" in told(WELL)[0]
