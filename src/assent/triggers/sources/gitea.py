"""Gitea and Forgejo, which send the same payloads as GitHub with different headers and signatures."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from assent.triggers.sources import github
from assent.triggers.sources.fields import Fields
from assent.triggers.sources.hook import Provider, ProviderHook
from assent.triggers.sources.signatures import hub
from assent.triggers.sources.tools import SourceTools

SECRETS = github.SECRETS


def _provider(kind: str) -> Provider:
    event, delivery = f"x-{kind}-event", f"x-{kind}-delivery"
    return Provider(
        kind,
        partial(github.read, kind=kind, event_header=event),
        ids=(delivery,),
        kept=(event, f"{event}-type", delivery),
    )


GITEA, FORGEJO = _provider("gitea"), _provider("forgejo")


def make_gitea(settings: Mapping[str, Any], tools: SourceTools) -> ProviderHook:
    fields = Fields(settings, tools, known=SECRETS)
    return ProviderHook(GITEA, fields, hub("x-gitea-signature", fields.secrets(), prefix=""))


def make_forgejo(settings: Mapping[str, Any], tools: SourceTools) -> ProviderHook:
    fields = Fields(settings, tools, known=SECRETS)
    return ProviderHook(FORGEJO, fields, hub("x-forgejo-signature", fields.secrets(), prefix=""))
