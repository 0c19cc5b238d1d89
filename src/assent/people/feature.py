"""People: accounts, groups, projects, tokens, sign-in and preferences."""

from assent.people.authenticator import Authenticator
from assent.people.usecases.oidc import OidcService
from assent.people.usecases.people import PeopleService
from assent.people.usecases.preferences import PreferenceService
from assent.people.usecases.secrets import SecretService
from assent.platform.registry import Registry


def register(node: Registry) -> None:
    accounts = node.add(PeopleService(node.random, node.hasher))
    node.add(PreferenceService(accounts))
    node.add(SecretService(node.keyring, node.random))
    node.add(Authenticator(node.database, node.clock))
    if node.settings.oidc_issuer:
        node.add(OidcService(node.settings, node.outbound, clock=node.clock, random=node.random))
