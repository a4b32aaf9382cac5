"""Works out what a query means before any event is seen: names, scopes, the shape with claims, LP-normal form."""
