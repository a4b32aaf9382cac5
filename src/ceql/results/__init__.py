"""Matches, from the engine's arrays to what the user holds: Arrow, frames, terminal and notebook views."""
