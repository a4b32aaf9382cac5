"""The second loop: parallelised automata with look-up tables (pcea-hcq-2024, section 5)."""
