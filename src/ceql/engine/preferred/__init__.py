"""The loop over ordered lists of runs: one match for each start, the preferred one (AFTER MATCH SKIP)."""
