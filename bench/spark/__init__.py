"""`make bench-spark`: the pipeline on Spark, as ratios to what Spark does without it, in one run."""
