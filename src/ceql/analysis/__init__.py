"""What a query means before any event is seen: names, LP-normal form, class and guarantee."""
