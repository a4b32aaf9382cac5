"""Text to tree and back: docs/reference.md, section 2.

`ceql.lark` is the grammar, `build` and `clauses` make the nodes of `tree`, `conditions` tells filters, predicates and
values apart, `limits` bounds the size of a query, `messages` words the errors, with `habits` for those used to other
languages, and `printer` turns trees into text.
"""

from ceql.syntax.parser import parse as parse_query
from ceql.syntax.parser import parse_formula
from ceql.syntax.printer import print_condition, print_expression, print_formula, print_query

__all__ = ["parse_formula", "parse_query", "print_condition", "print_expression", "print_formula", "print_query"]
