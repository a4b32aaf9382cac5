"""Every stage of a query as text, its automaton as a picture, and why it did not match."""
