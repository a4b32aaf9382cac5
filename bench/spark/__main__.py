"""`python -m bench.spark PART MASTER FOLDER ROWS` prints a part's figures as JSON; the session is its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.spark import parts, streams
from bench.spark.data import parquet_folder

if __name__ == "__main__":
    name, master, folder, rows = sys.argv[1:]
    part = getattr(parts, name, None) or getattr(streams, name)
    print(json.dumps(part(master, parquet_folder(Path(folder), int(rows)))))
