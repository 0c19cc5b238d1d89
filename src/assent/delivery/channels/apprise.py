"""The Apprise channel: sends short messages with a Review link to any service that the apprise package supports."""

import asyncio
import importlib
import importlib.util
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from assent.core.errors import InvalidRequest
from assent.delivery.channels.fields import Fields, Hidden
from assent.delivery.channels.tools import Tools
from assent.delivery.channels.wording import facts, headline, lead, left_out, listed, question, totals
from assent.delivery.message import Digest, Note
from assent.delivery.ports import Posted
from assent.kernel.outbound import Permanent, Transient

SECRETS = frozenset({"urls"})
PATIENCE = 20.0
"""Timeout in seconds for sending one message to all services; shorter than a delivery's lease."""
_LONGEST_QUESTION = 500
# Replaces characters that create mentions or links on some services; each service has its own markup.
_HARMLESS = str.maketrans({"@": "＠", "<": "‹", ">": "›", "[": "［", "]": "］"})
_SHOWN = frozenset({"Gate", "Agent", "Risk", "Answer by"})
# Apprise does blocking network I/O, so a service that hangs must not occupy threads that other code needs.
_THREADS = ThreadPoolExecutor(8, thread_name_prefix="assent-apprise")


class AppriseChannel:
    def __init__(self, settings: Mapping[str, Any], tools: Tools, *, patience: float = PATIENCE) -> None:
        given = Fields(settings, tools, known=SECRETS)
        self._urls = given.secrets("urls")
        self._patience = patience
        self._base_url = tools.base_url
        if not self._urls:
            raise InvalidRequest.at("/settings/urls", "is required")
        if importlib.util.find_spec("apprise") is None:
            raise InvalidRequest.at("/type", "requires the apprise package: install assent[apprise] on every node")

    async def send(self, note: Note) -> Posted:
        asked = note.breakpoint
        known = "\n".join(f"{each.label}: {each.value}" for each in facts(asked) if each.label in _SHOWN)
        written = [each.translate(_HARMLESS) for each in (lead(note), question(asked, _LONGEST_QUESTION), known)]
        parts = [*written, f"Review: {note.review_url}"]
        return await self._notify(headline(asked), "\n\n".join(each for each in parts if each))

    async def close(self, note: Note) -> Posted | None:
        """Do nothing: sent messages cannot be edited, and a second notification would be noise."""
        del note
        return None

    async def digest(self, digest: Digest) -> Posted:
        lines = [f"{words.translate(_HARMLESS)}: {url}" for words, url in listed(digest)]
        more = [each for each in (left_out(digest), f"Inbox: {digest.inbox_url}") if each]
        return await self._notify(totals(digest), "\n".join([*lines, *more]))

    async def check(self) -> str:
        loop = asyncio.get_running_loop()
        found = [await loop.run_in_executor(_THREADS, self._service, each) for each in self._urls]
        known = ", ".join(dict.fromkeys(str(each.service_name) for each in found))
        return (
            f"Apprise supports all configured URLs ({known}). Nothing was sent. To check that the services work, send "
            "a test message."
        )

    async def _notify(self, title: str, body: str) -> Posted:
        """Notify every service. If only some fail, record them instead of retrying, which would send duplicates.

        Raises Transient if all fail.
        """
        loop = asyncio.get_running_loop()
        tell = [
            loop.run_in_executor(_THREADS, partial(self._tell, url, title.translate(_HARMLESS), body))
            for url in self._urls
        ]
        try:
            async with asyncio.timeout(self._patience):
                told = await asyncio.gather(*tell)
        except TimeoutError as error:
            raise Transient("An Apprise service did not respond in time.") from error
        failed = [str(place) for place, sent in enumerate(told) if not sent]
        if len(failed) == len(told):
            raise Transient("No Apprise service accepted the message. See the Apprise log for details.")
        return Posted({"refused": f"urls/{', urls/'.join(failed)}"} if failed else {})

    def _tell(self, url: Hidden, title: str, body: str) -> bool:
        apprise = _package()
        service = self._service(url)
        every = apprise.Apprise(asset=service.asset)
        every.add(service)
        return bool(every.notify(title=title, body=body, body_format=apprise.NotifyFormat.TEXT))

    def _service(self, url: Hidden) -> Any:  # noqa: ANN401  # a type of the optional dependency
        apprise = _package()
        asset = apprise.AppriseAsset(
            app_id="Assent", app_desc="Assent", app_url=self._base_url, storage_mode="memory", async_mode=False
        )
        found = apprise.Apprise.instantiate(url.value(), asset=asset, suppress_exceptions=True)
        if found is None:
            place = self._urls.index(url)
            raise Permanent(f"The secret referenced by urls/{place} is not a URL that Apprise supports.")
        return found


def _package() -> Any:  # noqa: ANN401  # an optional dependency, which takes a second to import
    return importlib.import_module("apprise")
