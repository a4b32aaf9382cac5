"""The loop over determinised states (core-vldb2022), for queries on single events."""
