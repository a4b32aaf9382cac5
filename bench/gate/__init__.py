"""`make bench-check`: processor time of this tree beside that of an earlier commit, row by row, in turn.

Rejected: ratios to polars kept in a file. One commit differed from itself by half on some rows, since a slow spell of
the machine met one side only. Rejected too: counting instructions. Valgrind runs the kernels fifty times slower, does
not know what a miss of the cache costs, and knows no AVX-512, so it would count other code than users run.
"""
