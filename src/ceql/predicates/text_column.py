"""The slot for text: classes of equality with literals, found from Arrow's own buffers through a perfect hash table."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ceql.jit import Array
from ceql.predicates import kernels
from ceql.predicates.columns import NO_BITMAP, AttributeColumn, validity
from ceql.predicates.logic import Truth

_MOST = 500  # literals in the table of our own, which grows with their square; more of them are found by Arrow


class TextColumn(AttributeColumn):
    """Text that is compared with literals for equality. Each literal has a class, and all other texts have one."""

    def __init__(self, attribute: str, tests: list[frozenset[str]], negated: list[bool]) -> None:
        super().__init__(attribute)
        self.tests = tests
        self.negated = negated
        self.literals = sorted(frozenset().union(*tests))
        self.classes = 2 + len(self.literals)
        if len(self.literals) > _MOST:
            return
        encoded = [literal.encode() for literal in self.literals]
        self._offsets: Array = np.cumsum([0, *map(len, encoded)]).astype(np.int64)
        self._data: Array = np.frombuffer(b"".join(encoded) or b"\0", np.uint8)
        self._has_long = any(len(e) > 8 for e in encoded)
        self._chain: Array = np.zeros(len(encoded) + 1, np.uint64)
        first: dict[tuple[int, int], int] = {}  # numbered from 1; 0 is the end of a chain
        for k in range(len(encoded), 0, -1):
            head = encoded[k - 1][:8]
            like = (int.from_bytes(head, "little") << (64 - 8 * len(head)) & (2**64 - 1), len(encoded[k - 1]))
            self._chain[k] = first.get(like, 0)
            first[like] = k
        self._table, self._seed, self._shift = _perfect_hash(first)

    def truth(self, test: int, klass: int) -> Truth:
        if klass == 0:
            return None
        inside = klass >= 2 and self.literals[klass - 2] in self.tests[test]
        return inside != self.negated[test]

    def _add(self, codes: Array, values: pa.Array) -> None:
        if pa.types.is_null(values.type) or not len(values):
            codes *= self.classes
            return
        if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
            values = values.cast(pa.large_string())
        if len(self.literals) > _MOST:
            found = pc.index_in(values, value_set=pa.array(self.literals, values.type)).fill_null(-1)
            codes *= self.classes
            codes += found.to_numpy() + np.int32(2)
        else:
            self._add_few(codes, values)
        bitmap, shift = validity(values)
        if len(bitmap):
            kernels.clear_nulls(codes, bitmap, shift, self.classes)

    def _add_few(self, codes: Array, values: pa.Array) -> None:
        _, offsets_buffer, data_buffer = values.buffers()
        width = np.int32 if pa.types.is_string(values.type) else np.int64
        offsets = np.frombuffer(offsets_buffer, width, values.offset + len(values) + 1)[values.offset :]
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else NO_BITMAP
        words = _as_words(data)
        # the kernel reads two words from the start of each text: it reads the last texts from a padded copy
        safe = int(np.searchsorted(offsets[:-1], 8 * (len(words) - 1))) if len(words) else 0
        if safe:
            self._classify(codes[:safe], offsets[: safe + 1], data, words)
        if safe < len(codes):
            last = data[offsets[safe] : offsets[-1]].tobytes()
            padded = np.frombuffer(last + bytes(24 - len(last) % 8), np.uint8)
            moved = offsets[safe:] - offsets[safe]
            moved.flags.writeable = False
            self._classify(codes[safe:], moved, padded, padded.view(np.uint64))

    def _classify(self, codes: Array, offsets: Array, data: Array, words: Array) -> None:
        kernels.add_text(
            codes, offsets, data, words, self._table, self._seed, self._shift, self._has_long,
            self._offsets, self._data, self._chain, self.classes,
        )  # fmt: skip


def _perfect_hash(literals: dict[tuple[int, int], int]) -> tuple[Array, np.uint64, np.uint64]:
    """A table of (first word, length, number), and a multiplier and shift that give each literal a slot of its own."""
    bits = max(3, (4 * len(literals)).bit_length())
    random = np.random.default_rng(0)
    while True:
        shift = np.uint64(64 - bits)
        for _ in range(64):
            seed = np.uint64(int(random.integers(1 << 62)) * 2 + 1)
            with np.errstate(over="ignore"):
                places = [int(kernels.text_slot(np.uint64(w), np.uint64(n), seed, shift)) for w, n in literals]
            if len(set(places)) == len(places):
                table: Array = np.zeros((1 << bits, 3), np.uint64)
                for place, ((word, length), number) in zip(places, literals.items(), strict=True):
                    table[place] = (word, length, number)
                return table, seed, shift
        bits += 1


def _as_words(data: Array) -> Array:
    """The bytes as aligned 64-bit words; up to seven bytes at the end are left out."""
    whole = data[: len(data) // 8 * 8]
    if len(whole) == 0:
        return np.frombuffer(b"", np.uint64)
    if whole.ctypes.data % 8:
        whole = np.frombuffer(whole.tobytes(), np.uint8)
    return whole.view(np.uint64)
