"""Text to tree and back: docs/reference.md, section 2.

`ceql.lark` is the grammar, `build` and `clauses` make the nodes of `tree` from it, `conditions` tells filters,
predicates and values apart, `limits` keeps the input within bounds, `messages` words the errors; `printer` goes
the other way.
"""

from ceql.syntax.parser import parse as parse_query
from ceql.syntax.parser import parse_formula
from ceql.syntax.printer import print_condition, print_expression, print_formula, print_query

__all__ = ["parse_formula", "parse_query", "print_condition", "print_expression", "print_formula", "print_query"]
