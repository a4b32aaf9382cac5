"""A plan at work on a stream: `bound_plan`, then `recognise`, then `Recognition.feed` (in `frame`)."""
