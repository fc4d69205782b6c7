"""The end of the output while a program runs."""

import asyncio

from owui_plugin.live_output import LiveOutput
from sandbox_core.models import RunEvent


def text(piece: str) -> RunEvent:
    return RunEvent("text", 0, "stdout", piece)


def test_shows_the_end_twice_a_second_and_only_what_is_new() -> None:
    shown: list[str] = []

    async def show(preview: str) -> None:
        shown.append(preview)

    async def watch() -> None:
        live = LiveOutput(show)
        task = asyncio.create_task(live.run())
        live.take(RunEvent("started"))
        await asyncio.sleep(0.7)
        for number in range(10_000):
            live.take(text(f"line {number}\n"))
        await asyncio.sleep(0.6)
        live.take(text("10 %\r20 %\r30 %"))
        await asyncio.sleep(0.6)
        task.cancel()

    asyncio.run(watch())
    assert 1 <= len(shown) <= 3
    assert shown[-1].endswith("line 9999\n30 %")
    assert all(len(preview) <= 2048 for preview in shown)
