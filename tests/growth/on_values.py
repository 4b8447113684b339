"""Operations on the values of a session and of a shelf with many keys."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from eventlog import Shelf, Values
from tests.growth.operation import Table, constant, history, output
from tests.growth.place import Place

_EACH = "looks at a small record of every session"


@contextmanager
def _forked(at: Place) -> Generator[Values]:
    """The values of a new fork."""
    yield at.store.session("valued").fork(id=at.name("fork")).values


@contextmanager
def _new_shelf(at: Place) -> Generator[Shelf]:
    shelf = at.store.shelf("dropped")
    yield shelf


def _values(at: Place) -> Values:
    return at.store.session("valued").values


def _read(values: Values, prefix: str = "") -> int:
    return sum(1 for _ in values.items(prefix))


def _piped(at: Place) -> None:
    shelf = at.store.shelf("shelf")
    with shelf.pipeline():
        shelf.values.put("key 000100", "a value")
        shelf.values.drop("key 000200")


VALUES: Table = {
    "Values.put": constant(lambda at, _: _values(at).put("key 000100", "another value")),
    "Values.put, a new key": constant(lambda at, _: _values(at).put(at.name("key"), "a value")),
    "Values.put, if it is the revision": constant(
        lambda _, values: values.put("key 000100", "a value", expected=values.revision("key 000100")), _forked
    ),
    "Values.put, in a shelf": constant(lambda at, _: at.store.shelf("shelf").values.put("key 000100", "a value")),
    "Values.drop": constant(lambda at, _: _values(at).drop("key 000200")),
    "Values.get": constant(lambda at, _: _values(at).get("key 000300")),
    "Values.get, that there is none": constant(lambda at, _: _values(at).get("key 000300x")),
    "Values.get, inherited": constant(lambda _, values: values.get("key 000300"), _forked),
    "Values.get, in a shelf": constant(lambda at, _: at.store.shelf("shelf").values.get("key 000300")),
    "Values.revision": constant(lambda at, _: _values(at).revision("key 000300")),
    "Values.items": output(lambda at, _: _read(_values(at))),
    "Values.items, the first of all": constant(lambda at, _: next(_values(at).items())),
    "Values.items, ten of them": constant(lambda at, _: _read(_values(at), "key 00031")),
    "Values.keys": output(lambda at, _: len(_values(at).keys())),
    "Values.keys, ten of them": constant(lambda at, _: _values(at).keys("key 00031")),
    "Values.keys, a page": constant(lambda at, _: _values(at).keys(after="key 000300", limit=10)),
    "Shelf.pipeline": constant(lambda at, _: _piped(at)),
    "Shelf.head": constant(lambda at, _: at.store.shelf("shelf").head()),
    "Store.shelf": constant(lambda at, _: at.store.shelf("shelf")),
    "Store.shelves": history(lambda at, _: list(at.store.shelves()), _EACH),
    "Store.drop_shelf": history(lambda at, shelf: at.store.drop_shelf(shelf.name), _EACH, _new_shelf),
}
