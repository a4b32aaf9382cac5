"""Every stage of a query as text, and its automaton as a picture."""
