"""From LP-normal form or a shape to automata: CEA and their lazy determinisation, chain and parallel, strategies."""
