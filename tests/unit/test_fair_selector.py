"""The selector of the service's event loop: small portions, and nobody is forgotten."""

import selectors
import socket
from collections.abc import Iterator

import pytest

from codebox.fair_selector import FairSelector

COUNT = 50


@pytest.fixture
def selector() -> Iterator[FairSelector]:
    selector = FairSelector()
    yield selector
    selector.close()


@pytest.fixture
def senders(selector: FairSelector) -> Iterator[list[socket.socket]]:
    """Sockets whose other ends the selector watches."""
    pairs = [socket.socketpair() for _ in range(COUNT)]
    for ours, _ in pairs:
        selector.register(ours, selectors.EVENT_READ)
    yield [theirs for _, theirs in pairs]
    for pair in pairs:
        for end in pair:
            end.close()


def test_many_at_once_come_in_portions(
    selector: FairSelector, senders: list[socket.socket]
) -> None:
    for sender in senders:
        sender.send(b"x")
    assert 0 < len(selector.select(0)) < 10


def test_those_that_never_stop_sending_do_not_silence_the_others(
    selector: FairSelector, senders: list[socket.socket]
) -> None:
    for sender in senders:
        sender.send(b"x")  # and nobody reads it: all are ready for ever
    portion = len(selector.select(0))
    for _ in range(5):
        told = set()
        for _ in range(COUNT // portion + 1):
            told |= {key.fd for key, _ in selector.select(0)}
        assert len(told) == COUNT


def test_what_is_alone_is_told_every_time(
    selector: FairSelector, senders: list[socket.socket]
) -> None:
    senders[7].send(b"x")
    assert [len(selector.select(0)) for _ in range(3)] == [1, 1, 1]
    assert len(selector.get_map()) == COUNT
