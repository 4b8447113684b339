"""Words that no statement has, so that engines of this protocol can spread the rows."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

from eventlog.log import postgres
from eventlog.log.postgres import schema

FOLDER = Path(postgres.__file__).parent
FORBIDDEN = (
    r"\bSERIAL|BIGSERIAL|\bSEQUENCE\b|nextval",
    r"\bIDENTITY\b",
    r"\bLOCK\b",
    r"(?i)advisory",
    r"\bTRIGGER\b",
    r"\bNOTIFY\b|pg_notify",
    r"\bxmin\b|\bxmax\b|\bctid\b|txid|pg_current_xact|pg_snapshot|pg_current_snapshot",
    r"\bREFERENCES\b|\bFOREIGN\b",
)
"""Keywords stand in capitals in the statements of this package."""

_OBJECTS = """
SELECT relkind::text, relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace
UNION ALL SELECT 'trigger', tgname FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
    WHERE relnamespace = current_schema()::regnamespace
UNION ALL SELECT 'function', proname FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
UNION ALL SELECT 'foreign key', conname FROM pg_constraint
    WHERE connamespace = current_schema()::regnamespace AND contype = 'f'
"""
_KEYS = """
SELECT i.indexrelid::regclass::text, a.attname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
WHERE c.relnamespace = current_schema()::regnamespace AND i.indisunique
"""


@pytest.mark.parametrize("word", FORBIDDEN)
def test_no_statement_has_a_forbidden_word(word: str) -> None:
    """No sequence, table or advisory lock, trigger, NOTIFY, xid or foreign key is used."""
    for path in sorted(FOLDER.glob("*.py")):
        assert not re.search(word, path.read_text(encoding="utf-8")), (path.name, word)


def test_the_partition_is_first_in_every_key() -> None:
    """Every primary key and unique index begins with the partition."""
    statements = " ".join(schema._TABLES)
    keys = re.findall(r"PRIMARY KEY \((\w+)|UNIQUE INDEX \w+ ON \w+ \((\w+)", statements)
    assert len(keys) >= 8
    assert {first or second for first, second in keys} == {"partition"}
    assert "partition int4 NOT NULL PRIMARY KEY" in statements


def test_the_server_has_tables_keyed_by_partition_and_nothing_else(place: str) -> None:
    """The server lists tables and indexes only, each key by the partition first."""
    with psycopg.connect(place) as asked:
        names = asked.execute(_OBJECTS).fetchall()
        keys = asked.execute(_KEYS).fetchall()
    assert {kind for kind, _ in names} == {"r", "i"}
    assert len(keys) >= 8
    assert {first for _, first in keys} == {"partition"}
