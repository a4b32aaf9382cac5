"""A demonstration on sample data that ships with the package: `ceql demo`."""

from ceql.cli.demo.show import demo, payments

__all__ = ["demo", "payments"]
