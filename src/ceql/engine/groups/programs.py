"""Conditions that are more than one comparison: programs for a stack, over numbers, truth values and NULL.

An instruction is an operation and an argument. Numbers are int64, or float64 in the order-preserving form of
`io.sort_keys`; NULL is a word of its own. Whole numbers stay whole: what does not fit is reported, not rounded.
"""

from __future__ import annotations

import numpy as np

from ceql.engine.groups.layout import (
    IS_TRUE,
    LEAST_VALUE,
    MEMBER,
    MEMBER_AT,
    NO_EVENT,
    NOWHERE,
    NULL,
    NUMBER,
    TOO_LARGE,
    UNBOUND,
    Carrier,
)
from ceql.engine.groups.sets import size_of_set
from ceql.jit import Array, called, inlined

READ, CONSTANT, TO_FLOAT, AND, OR, NOT, IS_NULL, NEGATE_INT, NEGATE_FLOAT = range(9)
UNSCALE = 9  # a decimal's whole number to a float; the argument is how many digits are behind the point
KNOWN, COUNTED, TOTAL, DIFFERENT = range(40, 44)  # after READ of an aggregate: of no event, a sum too large, a set
ABS_INT, ABS_FLOAT, FLOOR, CEIL, ROUND = range(50, 55)
DENIED, MAY_HOLD = 60, 61  # at the end: whether the rest is not true, or not false
ADD_INT, SUBTRACT_INT, MULTIPLY_INT, REMAINDER_INT, MEAN_INT, DIVIDE_INT = range(10, 16)
ADD_FLOAT, SUBTRACT_FLOAT, MULTIPLY_FLOAT, DIVIDE_FLOAT, REMAINDER_FLOAT = range(20, 25)
COMPARE_WORDS, COMPARE_RANKS, COMPARE_INT_FLOAT, COMPARE_FLOATS = range(30, 34)  # the argument is the operator
NAN = 0x7FF8000000000000  # above all others; a comparison with it is unknown
FALSE, TRUE = 0, 1
FAILED = 2
_EXACT = 1 << 53
MEAN_DIGITS = 4  # that the mean of decimals has more behind the point
_MOST = np.iinfo(np.int64).max
_LEAST = np.iinfo(np.int64).min


@inlined
def to_key(value: float) -> int:
    """A float in the order-preserving form."""
    if value != value:
        return np.int64(NAN)
    bits = np.float64(value + 0.0).view(np.int64)
    return bits if bits >= 0 else np.int64(_LEAST) - bits


@inlined
def to_float(key: int) -> float:
    bits = key if key >= 0 else np.int64(_LEAST) - key
    return np.int64(bits).view(np.float64)


@inlined
def rank_of(number: int, rank: Array) -> int:
    """The rank of a value by its number; a number that a snapshot made up has none."""
    return rank[number] if 0 <= number < len(rank) else np.int64(-1)


@inlined
def order_of(a: int, b: float) -> int:
    """-1, 0 or 1: whether a whole number is less than, equal to or greater than a float, exactly."""
    if b >= 9223372036854775808.0:
        return -1
    if b < -9223372036854775808.0:
        return 1
    whole = np.int64(np.floor(b))
    if a != whole:
        return -1 if a < whole else 1
    return -1 if b > np.floor(b) else 0


@inlined
def satisfies(op: int, order: int) -> bool:
    """Whether an order of two values satisfies an operator: = != < <= > >=."""
    if op == 0:
        return order == 0
    if op == 1:
        return order != 0
    if op == 2:
        return order < 0
    if op == 3:
        return order <= 0
    if op == 4:
        return order > 0
    return order >= 0


@inlined
def calculate_int(operation: int, a: int, b: int) -> tuple[bool, int]:
    """The result in whole numbers, and whether it fits."""
    if operation == ADD_INT:
        c = a + b
        return not ((a >= 0) == (b >= 0) and (c >= 0) != (a >= 0)) and c > NULL, c
    if operation == SUBTRACT_INT:
        c = a - b
        return not ((a >= 0) != (b >= 0) and (c >= 0) != (a >= 0)) and c > NULL, c
    if operation == MULTIPLY_INT:
        if a == 0 or b == 0:
            return True, np.int64(0)
        c = a * b
        fits = abs(np.float64(a) * np.float64(b)) < 9.3e18 and c // b == a and c > NULL
        return fits, c
    if b == 0:
        return True, np.int64(NULL)
    if operation == MEAN_INT:
        whole = abs(a) // b
        rest = (2 * (abs(a) - whole * b) * 10**MEAN_DIGITS // b + 1) // 2  # halves away from zero
        if whole > _MOST // 10**MEAN_DIGITS - 1:
            return False, whole
        c = whole * 10**MEAN_DIGITS + rest
        return True, c if a >= 0 else -c
    if operation == DIVIDE_INT:  # towards zero
        c = abs(a) // abs(b)
        return True, c if (a >= 0) == (b >= 0) else -c
    if b == -1:
        return True, np.int64(0)
    c = abs(a) % abs(b)
    return True, c if a >= 0 else -c


@inlined
def calculate_float(operation: int, a: float, b: float) -> int:
    """The result as a key; division by zero gives NULL."""
    if operation == ADD_FLOAT:
        return to_key(a + b)
    if operation == SUBTRACT_FLOAT:
        return to_key(a - b)
    if operation == MULTIPLY_FLOAT:
        return to_key(a * b)
    if b == 0.0:
        return np.int64(NULL)
    if operation == DIVIDE_FLOAT:
        return to_key(a / b)
    return to_key(np.fmod(a, b))


@inlined
def constant(read: int, scratch: Array) -> int:
    """What a read of no event and no group gives."""
    if read <= NUMBER:
        return np.int64(NUMBER - read)
    if read <= MEMBER:
        return scratch[MEMBER_AT + MEMBER - read]
    if read == NOWHERE:
        return np.int64(NULL)
    if read == NO_EVENT:
        return np.int64(UNBOUND)
    return np.int64(1) if read == IS_TRUE else np.int64(0)


@called
def of_float(operation: int, value: float) -> int:
    """A function of a float: ABS and ROUND give one, FLOOR and CEIL the nearest whole number there is, 0 for NaN."""
    if operation == ABS_FLOAT:
        return to_key(abs(value))
    if operation == ROUND:  # halves away from zero
        whole = np.floor(abs(value))
        near = whole + 1.0 if abs(value) - whole >= 0.5 else whole
        return to_key(near if value >= 0.0 else -near) if value == value else np.int64(NAN)
    near = np.floor(value) if operation == FLOOR else np.ceil(value)
    if near != near:
        return np.int64(0)
    if near >= 9223372036854775808.0:
        return np.int64(_MOST)
    return (
        np.int64(max(np.int64(near), np.int64(LEAST_VALUE)))
        if near >= -9223372036854775808.0
        else np.int64(LEAST_VALUE)
    )


@called
def run_program(
    carrier: Carrier, begin: int, end: int, reads: int, values: Array, i: int, entries: Array, g: int, base: int
) -> int:
    """TRUE, FALSE, NULL, or FAILED where whole numbers get too large."""
    stack = carrier.scratch
    top = -1
    for at in range(begin, end):
        operation = carrier.code[at, 0]
        argument = carrier.code[at, 1]
        if operation == READ:
            top += 1
            read = carrier.reads[reads + argument]
            if read >= 0:
                stack[top] = values[i, read]
            elif read <= NOWHERE:
                stack[top] = constant(read, stack)
            else:
                stack[top] = entries[g, base - 1 - read]
        elif operation == CONSTANT:
            top += 1
            stack[top] = argument
        elif operation < AND or (operation >= NOT and operation < ADD_INT) or operation >= KNOWN:
            if not _change(carrier, operation, argument, stack, top):
                return FAILED
        else:
            top -= 1
            if not _combine(carrier, operation, argument, stack, top):
                return FAILED
    return stack[0]


@inlined
def _change(carrier: Carrier, operation: int, argument: int, stack: Array, top: int) -> bool:
    """Do what takes one value; False where it does not fit."""
    a = stack[top]
    if operation >= DENIED:
        stack[top] = FALSE if a == (TRUE if operation == DENIED else FALSE) else TRUE
    elif operation == DIFFERENT:
        stack[top] = size_of_set(carrier.cells, a)
    elif operation >= KNOWN and operation < DIFFERENT:
        if a == TOO_LARGE and operation == TOTAL:
            return False
        if a <= NULL:  # there is none
            stack[top] = 0 if operation == COUNTED else NULL
    elif operation == IS_NULL:
        stack[top] = TRUE if a == NULL else FALSE
    elif a == NULL:
        return True
    elif operation >= ABS_INT:
        stack[top] = abs(a) if operation == ABS_INT else of_float(operation, to_float(a))
    elif operation == TO_FLOAT:
        if abs(a) > _EXACT:
            return False
        stack[top] = to_key(np.float64(a))
    elif operation == UNSCALE:
        stack[top] = to_key(np.float64(a) / 10.0**argument)
    elif operation == NOT:
        stack[top] = 1 - a
    elif operation == NEGATE_INT:
        if -a <= NULL:
            return False
        stack[top] = -a
    else:
        stack[top] = to_key(0.0 - to_float(a))
    return True


@inlined
def _combine(carrier: Carrier, operation: int, argument: int, stack: Array, top: int) -> bool:
    """Do what takes the values at `top` and above it; False where the result does not fit."""
    a, b = stack[top], stack[top + 1]
    if operation == AND:
        if a == FALSE or b == FALSE:
            stack[top] = FALSE
        elif a == NULL or b == NULL:
            stack[top] = NULL
    elif operation == OR:
        if a == TRUE or b == TRUE:
            stack[top] = TRUE
        elif a == NULL or b == NULL:
            stack[top] = NULL
    elif a == NULL or b == NULL:
        stack[top] = NULL
    elif operation < ADD_FLOAT:
        fits, result = calculate_int(operation, a, b)
        if not fits:
            return False
        stack[top] = result
    elif operation < COMPARE_WORDS:
        stack[top] = calculate_float(operation, to_float(a), to_float(b))
    elif (operation >= COMPARE_INT_FLOAT and b == NAN) or (operation == COMPARE_FLOATS and a == NAN):
        stack[top] = NULL
    else:
        if operation == COMPARE_INT_FLOAT:
            order = order_of(a, to_float(b))
        else:
            if operation == COMPARE_RANKS:
                a, b = rank_of(a, carrier.rank), rank_of(b, carrier.rank)
            order = -1 if a < b else 1 if a > b else 0
        stack[top] = TRUE if satisfies(argument, order) else FALSE
    return True
