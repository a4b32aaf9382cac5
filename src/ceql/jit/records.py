"""Hands named tuples of arrays to kernels as one address each.

Numba passes a named tuple field by field, and an array as seven words or more. The loop over groups has some hundred
arrays: each call of a part would pass 700 words, and each part would begin by putting them together again, which was
most of what the compiler had to do. A class under `record` is passed as the address of a structure that the call
from Python fills; a part reads from it what it uses.

Nothing writes to the structure while the kernel runs, and each load says so (`invariant.load`): LLVM keeps what it has
read in registers, as it does with arguments.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import typeof_impl
from numba.extending import NativeValue, register_model, unbox

_DATA = 4  # the place of an array's address among the words that Numba has of it; those before are of no use here


class Record(types.Type):  # type: ignore[misc]
    """The type of a class under `record`, with the types of its fields."""

    def __init__(self, owner: type, fields: tuple[tuple[str, Any], ...]) -> None:
        self.owner, self.fields = owner, fields
        super().__init__(f"{owner.__module__}.{owner.__name__}({', '.join(str(kind) for _, kind in fields)})")

    @property
    def key(self) -> Any:
        return self.name

    @property
    def mangling_args(self) -> tuple[str, tuple[Any, ...]]:
        """A short name for LLVM: all that Numba makes of the types of a hundred arrays stands in every call."""
        return f"{self.owner.__name__}{zlib.crc32(self.name.encode())}", ()

    def place(self, name: str) -> int:
        return next(k for k, (field, _) in enumerate(self.fields) if field == name)


_known: set[type] = set()


def know(owners: Iterable[type]) -> None:
    """Tell Numba of named tuples that kernels take by their address."""
    for owner in set(owners) - _known:
        typeof_impl.register(owner)(partial(_type_of, owner))
        _known.add(owner)


def _type_of(owner: type, value: Any, context: Any) -> Record:
    kinds = (typeof_impl(field, context) for field in value)
    return Record(owner, tuple(zip(value._fields, kinds, strict=True)))


@register_model(Record)
class _RecordModel(models.PrimitiveModel):  # type: ignore[misc]
    """An address."""

    def __init__(self, dmm: Any, kind: Record) -> None:
        fields = [dmm.lookup(field).get_data_type() for _, field in kind.fields]
        super().__init__(dmm, kind, ir.LiteralStructType(fields).as_pointer())


@infer_getattr
class _RecordAttributes(AttributeTemplate):  # type: ignore[misc]
    key = Record

    def generic_resolve(self, kind: Record, name: str) -> Any:
        return dict(kind.fields).get(name)


def _load(builder: Any, place: Any) -> Any:
    """What stands in a place of the structure, word by word, so that LLVM leaves out the words that nobody uses."""
    kind = place.type.pointee
    if not isinstance(kind, ir.Aggregate):
        value = builder.load(place)
        value.set_metadata("invariant.load", builder.module.add_metadata([]))
        return value
    whole = ir.Constant(kind, ir.Undefined)
    for k in range(len(kind)):
        whole = builder.insert_value(whole, _load(builder, cgutils.gep_inbounds(builder, place, 0, k)), k)
    return whole


def _load_array(builder: Any, place: Any) -> Any:
    """The same of an array, whose first words are not used: the owner of its memory and the number of its bytes."""
    kind = place.type.pointee
    whole = ir.Constant(kind, None)
    for k in range(_DATA, len(kind)):
        whole = builder.insert_value(whole, _load(builder, cgutils.gep_inbounds(builder, place, 0, k)), k)
    return whole


@lower_getattr_generic(Record)  # type: ignore[untyped-decorator]
def _lower_attribute(context: Any, builder: Any, kind: Record, value: Any, name: str) -> Any:
    place = kind.place(name)
    field = kind.fields[place][1]
    found = cgutils.gep_inbounds(builder, value, 0, place)
    if isinstance(field, types.Array):
        return _load_array(builder, found)
    return context.data_model_manager[field].from_data(builder, _load(builder, found))


@unbox(Record)  # type: ignore[untyped-decorator]
def _unbox_record(kind: Record, given: Any, c: Any) -> Any:
    """Fill a structure on the stack of the call."""
    builder = c.builder
    structure = cgutils.alloca_once(builder, c.context.get_value_type(kind).pointee, zfill=True)
    # Numba's own way to call it is closed to kernels that allocate; no array of a record is handed back to Python
    adapted = ir.FunctionType(ir.IntType(32), [c.pyapi.pyobj, c.pyapi.voidptr])
    adapt = cgutils.get_or_insert_function(builder.module, adapted, "numba_adapt_ndarray")
    failed = cgutils.false_bit
    for k, (_, field) in enumerate(kind.fields):
        item, place = c.pyapi.tuple_getitem(given, k), cgutils.gep_inbounds(builder, structure, 0, k)
        if isinstance(field, types.Array):
            error = builder.call(adapt, [item, builder.bitcast(place, c.pyapi.voidptr)])
            failed = builder.or_(failed, cgutils.is_not_null(builder, error))
        else:
            native = c.unbox(field, item)
            failed = builder.or_(failed, native.is_error)
            builder.store(c.context.data_model_manager[field].as_data(builder, native.value), place)
    return NativeValue(structure, is_error=failed)
