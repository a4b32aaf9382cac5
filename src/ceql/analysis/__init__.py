"""What a query means before any event is seen: names and scopes, the shape with its claims, LP-normal form."""
