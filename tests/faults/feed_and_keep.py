"""Feeds a stream and keeps in a folder what it finds, by feed, and a snapshot from which the next process goes on.

`python feed_and_keep.py FOLDER STREAM FEEDS`. Files come into being by renaming, so that each is whole or not there.
The results of a feed are written before the snapshot that has it; a process that is killed between the two writes them
again. It says what it has done, line by line.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import ceql
from streams import STREAMS, Stream, read

ROWS = 25


def stream(number: int, feeds: int) -> Stream:
    """The stream with this number, in so many feeds."""
    return Stream(STREAMS[number].query, STREAMS[number].options, feeds=feeds, rows=ROWS)


def put(path: Path, content: bytes) -> None:
    """Write a file that is whole or not there, also after a loss of power."""
    beside = path.with_suffix(".part")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def main(folder: Path, number: int, feeds: int) -> None:
    own = stream(number, feeds)
    query = ceql.compile(own.query)
    kept = folder / "state"
    done = 0
    recognizer = query.recognizer(**own.options)
    if kept.exists():
        before, _, blob = kept.read_bytes().partition(b"\n")
        done, recognizer = int(before), query.restore(blob)
    print("ready", flush=True)
    for k, batch in list(enumerate(own.events()))[done:]:
        put(folder / f"{k:03}.json", json.dumps(read(recognizer.feed(batch))).encode())
        put(kept, b"%d\n" % (k + 1) + recognizer.snapshot())
        print(k, flush=True)
    put(folder / f"{feeds:03}.json", json.dumps(read(recognizer.finish())).encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
