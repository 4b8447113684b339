"""Words that no statement has, so that engines of this protocol can spread the rows."""

from __future__ import annotations

import re
from pathlib import Path

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
