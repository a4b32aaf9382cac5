"""`make signatures`: brings `src/ceql/jit/signatures.txt` up to date.

`python tools/signatures.py [FILE ...]`. FILES are what CEQL_COMPILED names: the kernels that processes had to compile.
They are added, and lines that no longer fit the kernels are left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ceql.jit.signatures import LIST, StaleError, abridged, listed, read


def sound(line: str) -> bool:
    """Whether a line says what a kernel is."""
    try:
        read(line)
    except StaleError as error:
        print(f"left out: {error}")
        return False
    return True


def main() -> None:
    old = set(listed())
    lines = old.copy()
    for name in sys.argv[1:]:
        if Path(name).exists():
            lines |= set(Path(name).read_text().splitlines())
    kept = {line for line in lines if sound(line)}
    LIST.write_text(abridged(kept))
    print(f"{len(kept)} kernels: {len(kept - old)} added, {len(old - kept)} left out")


if __name__ == "__main__":
    main()
