"""A demonstration on sample data that ships with the package: `ceql demo`."""

from ceql.demo.show import demo, payments

__all__ = ["demo", "payments"]
