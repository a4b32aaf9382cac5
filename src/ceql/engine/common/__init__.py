"""Code that both loops share."""
