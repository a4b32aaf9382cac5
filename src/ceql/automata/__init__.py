"""From LP-normal form to tables: complex event automata, selection strategies, lazy determinisation."""
