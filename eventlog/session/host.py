"""Services of an open store for its sessions: log, clock, ids, lease owner, flusher."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock

from eventlog import ids
from eventlog.append.flusher import Flusher
from eventlog.append.metrics import Metrics
from eventlog.codec.large_texts import body_data, body_text
from eventlog.errors import CallError, ClosedError, DamagedError, ForkedProcessError, ReadOnlyError
from eventlog.following.follower import Follower
from eventlog.history.ancestry import head_of
from eventlog.history.catalog import SessionInfo, info_of
from eventlog.log.contract import Log
from eventlog.models.catalogue import ModelCatalogue, shipped
from eventlog.session.kept import Kept
from eventlog.session.open_work_cache import OpenWork
from eventlog.session.owner import Owner
from eventlog.validation import a_kind, require, require_call, require_or_none
from eventlog.values import Body, Content, Model, Price, Tokens, Usage


class Host:
    """Services that the sessions of a store share.

    Refers to the store only weakly, so that an unused store can be collected.
    """

    def __init__(
        self,
        store: object,
        log: Log,
        *,
        flush_interval: float,
        lease_ttl: int,
        checkpoint_events: int,
        clock: Callable[[], int] | None,
        new_id: Callable[[str], str] | None,
        prices: Callable[[Model | None, Tokens], Price | None] | None,
        models: ModelCatalogue | None,
    ) -> None:
        for number in (flush_interval, lease_ttl, checkpoint_events):
            require((int, float), number, "flush_interval, lease_ttl and checkpoint_events are numbers")
        require_call(clock, "a clock is a function that gives UTC milliseconds")
        require_call(new_id, "new_id is a function that gives an id for a prefix")
        require_call(prices, "prices are a function that gives the Price of a model's tokens, or None")
        require_or_none(ModelCatalogue, models, "models are a ModelCatalogue")
        if not (flush_interval > 0 and lease_ttl > 0 and checkpoint_events > 0):
            raise CallError("flush_interval, lease_ttl and checkpoint_events are greater than zero")
        self.log = log
        shared = log.clock
        own: Callable[[], int] = (lambda: shared() // 1_000_000) if clock is None else _checked_clock(clock)
        self.clock = own
        """UTC milliseconds, by the clock of the log."""
        self.nanoseconds: Callable[[], int] = shared if clock is None else lambda: own() * 1_000_000
        """The clock in nanoseconds, for deltas: one call less."""
        self.new_id: Callable[[str], str] = ids.new_id if new_id is None else _checked_new_id(new_id)
        """A new id for a prefix."""
        self._prices = prices
        self._models = models
        self.lease_ttl = lease_ttl
        """Milliseconds a lease lasts without renewal."""
        self.checkpoint_events = checkpoint_events
        self.owner: Owner = Owner.here(ids.new_id("own_"))
        """Holder of the leases that the store's sessions take."""
        self.counted: Metrics = Metrics()
        """The live counters; `Store.metrics` returns a copy."""
        self.flusher: Flusher = Flusher(store, self.clock, self.counted, interval=flush_interval, lease_ttl=lease_ttl)
        self.follower: Follower = Follower(log)
        """Wakes the subscriptions of the store."""
        self.flusher.on_accepted = self.follower.accepted
        self.kept: Kept = Kept()
        """Readings of the sessions, kept between the calls of readers."""
        self.open_work: OpenWork = OpenWork()
        """The sessions that a loop has to go on with, as far as they are known."""
        self.gather: Callable[[], None] = lambda: None
        """Has the bytes of what was erased removed in a while."""
        self.closing: RLock = RLock()
        """Held by the thread that closes the store."""
        self.closed: bool = False
        self.writable: bool = not log.read_only
        """Whether `require_open(writing=True)` lets a command pass: quicker to ask."""
        self.forked: bool = False

    @property
    def models(self) -> ModelCatalogue:
        """The catalogue of models: the one that was given, or the one that ships."""
        return shipped() if self._models is None else self._models

    def require_open(self, *, writing: bool = False) -> None:
        """Raise the error that says why the store cannot be read, or written."""
        if self.closed:
            raise (
                ForkedProcessError("the store was opened before os.fork(); open it again in this process")
                if self.forked
                else ClosedError("the store is closed")
            )
        if writing and self.log.read_only:
            raise ReadOnlyError("the store was opened for reading only")

    def info(self, session: str) -> SessionInfo:
        """The catalog entry of a session."""
        self.require_open()
        require(str, session, "an id is a str")
        with self.log.reading() as heads:
            return info_of(head_of(heads, session))

    def text(self, content: Content, session: str | None = None) -> str:
        """The text of a content, found among the bodies of `session`, or of all sessions."""
        require((str, Body), content, "a content is a str or a Body")
        return content if isinstance(content, str) else body_text(content, self.packed(content, session))

    def data(self, data: bytes | Body, session: str | None = None) -> bytes:
        """The bytes of data, or of a body of any kind, found as `text` finds it."""
        require((bytes, Body), data, "data is bytes or a Body")
        return data if isinstance(data, bytes) else body_data(data, self.packed(data, session))

    def packed(self, body: Body, session: str | None) -> bytes:
        """The stored bytes of a large text; `DamagedError` if they are missing."""
        packed = (self.log if session is None else self.log.of(session)).body(body.digest)
        if packed is None:
            if session is not None:
                head_of(self.log, session)  # raises if it was erased
            raise DamagedError(f"body {body.digest.hex()} is missing")
        return packed

    def priced(self, usage: Usage, model: Model | None, catalogue: str = "") -> tuple[Usage, str]:
        """Return a usage with its cost, and the date of the price catalogue that gave the cost.

        A cost that the caller gives stands; else the store's prices are asked, or its catalogue.
        """
        require(Usage, usage, "UsageRecorded.usage is of type Usage")
        if usage.cost is not None:
            return usage, catalogue
        price = self.models.price(model, usage.tokens) if self._prices is None else self._prices(model, usage.tokens)
        if price is None:
            return usage, catalogue
        require(Price, price, "prices are a function that gives a Price, or None")
        return Usage(usage.tokens, price.cost), price.catalogue

    def fork_off(self) -> None:
        """Close in a forked child process: the store belongs to the parent."""
        self.closing = RLock()  # another thread of the parent may have held the old one
        self.closed = True
        self.forked = True
        self.writable = False
        self.kept.clear()
        self.flusher.fork_off()
        self.follower.fork_off()


def _checked_clock(clock: Callable[[], int]) -> Callable[[], int]:
    """A caller's clock, whose times are refused unless they are whole numbers."""

    def now() -> int:
        time: object = clock()
        if type(time) is not int:
            raise CallError(f"a clock gives UTC milliseconds as a whole number, not {a_kind(time)}")
        return time

    return now


def _checked_new_id(new_id: Callable[[str], str]) -> Callable[[str], str]:
    """A caller's maker of ids, whose ids are refused unless they are allowed."""

    def made(prefix: str) -> str:
        name: object = new_id(prefix)
        require(str, name, "new_id gives an id as a str")
        return ids.check_id("new", str(name))

    return made
