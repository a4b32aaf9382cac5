"""What `make coldstart` and `make walk` run: every kind of query finds matches, and calls are counted as said."""

from __future__ import annotations

from bench import coldstart, walk

from ceql.errors import nearest
from ceql.jit.cache import cache_root


def test_every_kind_of_query_is_run():
    taken = coldstart.run(coldstart.KINDS, cache_root(), sources=coldstart.SOURCES)
    assert [each.name for each in taken] == [kind.name for kind in coldstart.KINDS]
    assert all(each.seconds > 0 for each in taken)


def test_a_walk_counts_files_functions_and_changes_of_package():
    alone = walk.walk(lambda: nearest("Sel", ["SELL"]))
    assert (len(alone.files), len(alone.functions), alone.changes) == (1, 1, 0)
    seen = [walk.first_read(text) for text in walk.QUERIES.values()]
    assert all(each.changes % 2 == 0 for each in seen)  # what goes in comes out
    assert len(seen[0].files) < len(seen[1].files)
    again = walk.first_read(walk.QUERIES["single events"])
    assert (again.files, again.functions, again.changes) == (seen[0].files, seen[0].functions, seen[0].changes)
