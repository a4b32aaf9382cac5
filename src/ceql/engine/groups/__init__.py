"""The loop over runs that are looked up by their values (pcea-hcq-2024), for queries that compare events."""
