"""The parts of the experiment on Spark, which need sessions of their own; `bench.experiments.spark` asks for them."""
