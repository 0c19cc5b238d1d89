"""What a use case works with: the nouns of the store over one open transaction."""

from functools import cached_property

from assent.domain.breakpoint import Breakpoint
from assent.ports import Clock, Hint, Ids, Session
from assent.store.breakpoints import Breakpoints
from assent.store.files import Files
from assent.store.idempotency import Idempotency
from assent.store.people import People
from assent.store.projects import Projects
from assent.store.sessions import Sessions
from assent.store.tokens import Tokens


class Transaction:
    """Nobody calls commit by hand: the database does when the use case returns."""

    def __init__(self, session: Session, clock: Clock, ids: Ids) -> None:
        self.session = session
        self.hints: list[Hint] = []
        self._clock = clock
        self._ids = ids

    def now(self) -> int:
        return self._clock.now()

    def new_id(self, prefix: str) -> str:
        return self._ids.new(prefix, self._clock.now())

    def changed(self, breakpoint_: Breakpoint) -> None:
        """After the commit, wake whoever waits for this breakpoint."""
        self.hints.append(Hint(breakpoint_.project, breakpoint_.id, breakpoint_.status, breakpoint_.version))

    @cached_property
    def breakpoints(self) -> Breakpoints:
        return Breakpoints(self.session)

    @cached_property
    def files(self) -> Files:
        return Files(self.session)

    @cached_property
    def idempotency(self) -> Idempotency:
        return Idempotency(self.session)

    @cached_property
    def people(self) -> People:
        return People(self.session)

    @cached_property
    def projects(self) -> Projects:
        return Projects(self.session)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self.session)

    @cached_property
    def tokens(self) -> Tokens:
        return Tokens(self.session)
