"""An LRU cache of rendered HTML with a limit in bytes."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

from assent.web.rendering.rendered import Rendered

PER_ENTRY = 512
"""Approximate overhead of an entry in bytes."""


class Cache:
    """A cache that is shared by the rendering threads."""

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
        # Render without the lock, so that slow text does not block other text. Two threads may render the same text.
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
    # Assume the maximum of four bytes per character, because encoding the text only to measure it is slow.
    return 4 * len(rendered.html) + PER_ENTRY
