"""Events for whoever watches, who may be slow, asleep or broken."""

import threading
import time

from sandbox_core.event_feed import EventFeed
from sandbox_core.models import RunEvent


def text(text, stream="stdout"):
    return RunEvent("text", 0, stream, text)


def test_events_arrive_in_order():
    seen = []
    feed = EventFeed(seen.append)
    events = [
        RunEvent("started"),
        text("a"),
        text("b", "stderr"),
        RunEvent("started", 1),
    ]
    for event in events:
        feed.put(event)
    feed.close()
    assert seen == events


def test_without_a_watcher_nothing_starts():
    before = threading.active_count()
    feed = EventFeed(None)
    feed.put(text("x"))
    assert threading.active_count() == before
    feed.close()


def test_a_sleeping_watcher_delays_nobody_and_holds_little():
    asleep, seen = threading.Event(), []

    def watch(event):
        seen.append(event)
        asleep.wait(30)

    feed = EventFeed(watch)
    began = time.monotonic()
    for _ in range(2000):
        feed.put(text("x" * 1000))
    feed.put(RunEvent("started", 1))
    assert time.monotonic() - began < 5
    assert feed._characters <= 1 << 18
    assert len(feed._waiting) <= 3
    feed.close()
    assert time.monotonic() - began < 10
    asleep.set()
    time.sleep(0.1)
    assert len(seen) == 1, "nothing is told after the end of the run"


def test_texts_of_one_stream_are_merged_while_they_wait():
    go, seen = threading.Event(), []

    def watch(event):
        seen.append(event)
        go.wait(10)

    feed = EventFeed(watch)
    feed.put(RunEvent("started"))
    while not seen:
        time.sleep(0.001)
    for part in "abc":
        feed.put(text(part))
    feed.put(text("d", "stderr"))
    go.set()
    feed.close()
    assert seen[1:] == [text("abc"), text("d", "stderr")]


def test_a_watcher_that_raises_is_told_no_more(caplog):
    calls = []

    def watch(event):
        calls.append(event)
        raise ValueError("broken watcher")

    feed = EventFeed(watch)
    for _ in range(5):
        feed.put(text("x"))
        time.sleep(0.01)
    feed.close()
    assert len(calls) == 1
    assert "broken watcher" in caplog.text
