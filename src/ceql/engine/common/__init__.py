"""What both loops share."""
