"""`ceql studio`: a local page to write a query, run it and see its matches. It needs the extra `studio`."""
