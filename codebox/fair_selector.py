"""What an event loop waits with, so that many ready sockets do not hold it."""

import selectors

__all__ = ["FairSelector"]

_SERVED_AT_A_TURN = 8


class FairSelector(selectors.DefaultSelector):
    """Tells of a few descriptors at a time, of those first that it was silent about longest.

    A thousand clients that come or go at once would otherwise hold the event loop for half a
    second, in which nothing else is served.
    """

    def __init__(self) -> None:
        super().__init__()
        self._turn = 0
        self._told: dict[int, int] = {}  # descriptor → turn in which it was told of

    def select(
        self, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        """As selectors.BaseSelector.select; what is left out comes in a later turn."""
        ready = super().select(timeout)
        if len(ready) > _SERVED_AT_A_TURN:
            # Or a few clients that never stop sending would silence all others.
            ready.sort(key=lambda pair: self._told.get(pair[0].fd, 0))
            del ready[_SERVED_AT_A_TURN:]
        self._turn += 1
        for key, _ in ready:
            self._told[key.fd] = self._turn
        return ready
