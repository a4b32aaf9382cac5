"""Whole numbers of any size from their remainders."""

from __future__ import annotations


def prime_below(number: int) -> int:
    """The greatest prime below an odd number."""
    candidate = number - 2
    while not _is_prime(candidate):
        candidate -= 2
    return candidate


def _is_prime(n: int) -> bool:
    """Miller-Rabin with bases that decide every n below 3.3e24."""
    bases = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
    if any(n % p == 0 for p in bases):
        return n in bases
    d, r = n - 1, 0
    while d % 2 == 0:
        d, r = d // 2, r + 1
    for base in bases:
        value = pow(base, d, n)
        if value in (1, n - 1):
            continue
        for _ in range(r - 1):
            value = value * value % n
            if value == n - 1:
                break
        else:
            return False
    return True
