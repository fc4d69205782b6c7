"""The tools as an MCP client sees them, with the official client."""

import asyncio
import base64
import threading
import time

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.codebox.tokens import good_token, headers

AWK = """
[awk]
file_name = "main.awk"
run = ["awk", "-f", "{source}"]
version = ["awk", "-W", "version"]
self_test = { code = "BEGIN { print 6 * 7 }", expected_stdout = "42\\n" }
"""
PLOT = """import matplotlib.pyplot as plt
plt.plot([1, 2, 3])
plt.savefig('plot.png')
print('drawn')"""


def call(service, *calls, token=None):
    """Results of tool calls (name, arguments), and the tools, in one MCP session."""

    async def talk():
        async with (
            httpx2.AsyncClient(headers=headers(token), timeout=60) as client,
            streamable_http_client(f"{service.url}/mcp", http_client=client) as streams,
            ClientSession(streams[0], streams[1]) as session,
        ):
            await session.initialize()
            tools = (await session.list_tools()).tools
            return tools, [
                await session.call_tool(name, given) for name, given in calls
            ]

    return asyncio.run(talk())


def text_of(result):
    return "".join(part.text for part in result.content if part.type == "text")


def test_tools_and_their_schemas(service):
    tools, _ = call(service)
    assert [tool.name for tool in tools] == [
        "run_code",
        "list_packages",
        "list_languages",
    ]
    assert tools[0].description.endswith("There is no network.")
    schema = tools[0].input_schema
    assert set(schema["properties"]) == {"code", "language", "stdin", "packages"}
    assert schema["required"] == ["code"]
    known = ["python", "bash", "javascript", "perl", "sql"]  # of the usual image
    assert schema["properties"]["language"]["enum"] == known


def test_a_language_that_an_administrator_added(start_service):
    awk = start_service(languages=AWK)
    tools, (done, listed) = call(
        awk,
        ("run_code", {"code": "BEGIN { print 6 * 7 }", "language": "awk"}),
        ("list_languages", {"filter": "awk"}),
    )
    assert tools[0].input_schema["properties"]["language"]["enum"][-1] == "awk"
    assert "stdout:\n42\n" in text_of(done)
    assert text_of(listed).startswith("awk: Awk 1.")


def test_run_gives_text_for_a_model_and_pictures(service):
    _, (done, failed) = call(
        service,
        ("run_code", {"code": f"```python\n{PLOT}\n```"}),
        ("run_code", {"code": "ls /nowhere", "language": "bash"}),
    )
    assert "outcome: ok" in text_of(done)
    assert "drawn" in text_of(done)
    (picture,) = [part for part in done.content if part.type == "image"]
    assert base64.b64decode(picture.data).startswith(b"\x89PNG")
    assert not done.is_error
    assert "outcome: failed" in text_of(failed)
    assert "nowhere" in text_of(failed)


def test_long_output_keeps_to_the_models_budget(service):
    code = "for n in range(200_000): print(n)"
    _, (done,) = call(service, ("run_code", {"code": code}))
    assert len(text_of(done).encode()) <= 16 * 1024
    assert "199999" in text_of(done)


def test_packages_and_languages(service):
    _, (listed, some, languages) = call(
        service,
        ("list_packages", {}),
        ("list_packages", {"filter": "NUM"}),
        ("list_languages", {}),
    )
    assert "\nnumpy " in text_of(listed)
    assert "\npandas " not in text_of(some)
    assert "\nnumpy " in text_of(some)
    assert text_of(languages).startswith("python: Python 3.")


def test_refusals_are_words_for_the_model(start_service):
    service = start_service(rate_limit_rps=0.2, rate_limit_burst=1)
    _, (first, second) = call(service, *[("run_code", {"code": "print(1)"})] * 2)
    assert not first.is_error
    assert second.is_error
    assert "wait" in text_of(second)
    assert "seconds" in text_of(second)


def test_user_is_the_one_of_the_token(service):
    call(service, ("run_code", {"code": "print(1)"}), token=good_token("mcp-user"))
    assert '"user": "mcp-user"' in service.log()


def test_run_ends_when_the_client_is_gone(service, leases_of, wait_until):
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "run_code",
            "arguments": {"code": "import time; time.sleep(99)"},
        },
    }
    call_headers = headers(Accept="application/json, text/event-stream")

    def ask():
        with pytest.raises(httpx2.ReadTimeout):
            httpx2.post(
                f"{service.url}/mcp", json=body, headers=call_headers, timeout=4
            )

    client = threading.Thread(target=ask)
    client.start()
    wait_until(lambda: leases_of(service), 10)
    client.join()
    begun = time.monotonic()
    wait_until(lambda: not leases_of(service), 15)
    assert time.monotonic() - begun < 15
