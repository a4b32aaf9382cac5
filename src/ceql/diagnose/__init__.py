"""Explains why a query finds no match."""
