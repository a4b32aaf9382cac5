"""A plan at work on a stream."""
