"""Times that are text, as in JSON: reads them as ISO 8601, all times of a stream as one type."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from ceql.errors import DataError
from ceql.io.schemas import is_text

_ZONE = r"[Zz]$|[+-]\d\d(:?\d\d)?$"


class TextTimes:
    """Turns the column `name` into timestamps: in UTC if the first texts have a zone, else without a zone."""

    def __init__(self, name: str | None):
        self.name = name
        self._type: pa.DataType | None = None

    def convert(self, table: pa.Table) -> pa.Table:
        """`table` with its time as a timestamp, if it is text or Arrow has read it as a timestamp."""
        index = table.schema.get_field_index(self.name) if self.name is not None else -1
        if index < 0:
            return table
        column = table.column(index)
        if not is_text(column.type) and not pa.types.is_timestamp(column.type):
            return table
        if self._type is None:
            self._type = pa.timestamp("ns", _zone(column))
        try:
            return table.set_column(index, self.name, column.cast(self._type))
        except pa.ArrowInvalid as error:
            raise DataError(f"the times in column '{self.name}' are not all ISO 8601 of one form: {error}") from error


def _zone(column: pa.ChunkedArray) -> str | None:
    if pa.types.is_timestamp(column.type):
        return str(column.type.tz) if column.type.tz else None
    # `-05` at the end is a zone only after a time of day; else it is the day of a date
    zoned = pc.and_(
        pc.match_substring_regex(column, r"\d\d:\d\d"), pc.match_substring_regex(column.cast(pa.string()), _ZONE)
    )
    return "UTC" if pc.any(zoned).as_py() else None
