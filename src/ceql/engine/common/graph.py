"""The nodes of the graphs that hold partial matches: one form for both loops, so that one set of readers knows it.

A node is a row of `nodes`: int64[capacity, 5]. Children have smaller indices than their parents.

| kind    | MAX       | A        | B               | C         | KIND           |
|---------|-----------|----------|-----------------|-----------|----------------|
| product | max-start | position | factors, or -1  | exact key | mark (>= 0)    |
| bottom  | start key | position | -1              | exact key | BOTTOM         |
| factor  | max-start | a union  | further factors | -         | FACTOR         |
| union   | max-start | product  | left, or -1     | right, -1 | UNION - rank   |
| listed  | of all    | product  | the one before  | skip      | LISTED         |
| others  | max-start | listed   | a value         | -         | OTHERS         |
| ordered | max-start | a bucket | a value         | rows      | ORDERED        |
| between | max-start | ordered  | a bucket        | rows      | BETWEEN        |

A product has an event and one match of each factor; with a single factor, `B` is that union itself. One without factors
is a start. A bottom is a start whose event is in no match: the loop over states has the event in a product above it, if
the match has it at all (core-vldb2022, 4.1, where such a product is an *output* node). A union is a product, or another
union, together with two further unions, none of which has a greater max-start; a product can stand for the union that
has it alone. `states/graph.py` and `groups/graph.py` say how each loop unites, and what lists and ordered nodes are.

Starts are compared by *key*, whatever the window counts: the position, the index in the substream, the time, an
attribute. Keys never decrease along a stream, which is all that the papers' invariants need. For an attribute that does
decrease, the key is its running maximum, and a start also has the exact value.
"""

from __future__ import annotations

import numpy as np

MAX, A, B, C, KIND = range(5)
NODE_WORDS = 5
FACTOR, LISTED, OTHERS, UNION = -1, -2, -3, -4  # ranks make the kinds of unions smaller still
PAIR = UNION - 1  # a union without a right side
ORDERED, BETWEEN = -128, -129  # below all ranks
BOTTOM = 1 << 30  # above all marks
VALUE, BEST, SECOND = range(3)  # columns of `extra`
NO_START = np.iinfo(np.int64).min
NONE = np.int64(-1)  # no node
