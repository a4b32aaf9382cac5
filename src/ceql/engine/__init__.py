"""The compiled loops and the arrays they work on. Knows numpy and numba alone."""
