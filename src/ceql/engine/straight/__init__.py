"""The loop for matches of a fixed number of events in a row: a shift and a mask for each event."""
