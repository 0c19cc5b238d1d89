"""Creates channel instances from their settings on first use, and caches them for all projects."""

from assent.core.errors import InvalidRequest
from assent.delivery.channels.registry import KINDS, ChannelKind
from assent.delivery.channels.tools import Tools
from assent.delivery.ports import Channel
from assent.delivery.store.channels import StoredChannel

MOST = 1_000


class Switchboard:
    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._made: dict[str, tuple[int, Channel]] = {}

    def channel(self, stored: StoredChannel) -> Channel:
        """Return the channel with its current settings; raise InvalidRequest if they cannot be used."""
        made = self._made.get(stored.id)
        # Every change to the settings also changes updated_at.
        if made is not None and made[0] == stored.updated_at:
            return made[1]
        kind = KINDS.get(stored.type)
        if kind is None:
            raise InvalidRequest.at("/type", f"must be one of {', '.join(sorted(KINDS))}")
        channel = kind.make(stored.settings, self._tools)
        # Clearing the cache is safe, because channels are created again when they are needed.
        if len(self._made) >= MOST:
            self._made.clear()
        self._made[stored.id] = (stored.updated_at, channel)
        return channel

    @staticmethod
    def kind(stored: StoredChannel) -> ChannelKind | None:
        """Return the channel's kind; None if this version of Assent does not support it."""
        return KINDS.get(stored.type)
