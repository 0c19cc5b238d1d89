"""What was rendered once is kept, up to a number of bytes; the longest unused goes first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from assent.web.rendering.rendered import Rendered

PER_ENTRY = 512
"""Bytes that an entry takes beside its HTML, about."""


class Cache:
    """Shared by the threads that render."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Hashable, Rendered] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def get(self, key: Hashable, render: Callable[[], Rendered]) -> Rendered:
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        made = render()
        if not made.hurried:
            self._keep(key, made)
        return made

    def _keep(self, key: Hashable, made: Rendered) -> None:
        with self._lock:
            if key in self._kept or _weight(made) > self._max_bytes:
                return
            self._kept[key] = made
            self.bytes += _weight(made)
            while self.bytes > self._max_bytes:
                _, dropped = self._kept.popitem(last=False)
                self.bytes -= _weight(dropped)


def _weight(rendered: Rendered) -> int:
    # A character takes up to four bytes; nobody encodes it only to count.
    return 4 * len(rendered.html) + PER_ENTRY
