"""Text to tree and back: LANGUAGE.md section 2."""
