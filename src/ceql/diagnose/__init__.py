"""Why there is no match."""
