"""`make bench-check`: processor time of this tree beside that of an earlier commit, row by row, in turn.

Rejected: ratios to polars kept in a file. Three runs of one commit differed by -27% to +60% on the same row. Rejected
too: counting instructions. Under callgrind the import of ceql alone takes 49 s of processor time instead of 1.2, and
Numba sees an older processor there (no AVX-512), so it would compile everything anew and count other code than users
run; and a count does not tell what a miss of the cache costs.
"""
