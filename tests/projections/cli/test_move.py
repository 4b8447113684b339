"""`eventlog move`, on two clusters of one log."""

from __future__ import annotations

import eventlog
from eventlog.log.postgres.joining import create_clusters
from tests.support.cli_runner import Cli, valid
from tests.support.postgres_server import running


def test_partitions_move_by_command(cli: Cli) -> None:
    """A partition moves once, and no move is ended that was not begun."""
    pair = running().new_schema(), running().new_schema()
    create_clusters(pair, partitions=4)
    with eventlog.open(pair) as store:
        store.create_session(id="tides").user("Why two a day?")
        where = store.log.partition_of("tides")
        source, to = pair if where < 2 else pair[::-1]
        options = ("--from", source, "--to", to)
        assert "no move was begun" in cli("move", str(where), *options, "--abandon").out
        done = cli("move", str(where), *options, "--json").json
        valid("move", done)
        assert (done["commits"] > 0, done["sessions"], done["copied_frozen"]) == (True, 1, 0)
        assert "0 appends" in cli("move", str(where), *options).out
        store.session("tides").user("And at night?")
        back = cli("move", "0", "1", "2", "3", "--from", to, "--to", source)
        assert (back.code, len(back.out.splitlines())) == (0, 4)
    refused = cli("move", "9", *options)
    assert (refused.code, "partitions 0 to 3" in refused.err) == (2, True)
    assert cli("move", "0", "--from", source, "--to", "nowhere").code == 2
