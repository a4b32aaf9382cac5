"""Other engines, and what one would write without any: the same events, the same query, the same matches or a note.

Each adapter is a `Peer`: it makes the environment that it needs, in a folder of its own, and says how its worker is
started. A worker is a program that reads one `Job` and prints a line of JSON for each run.
"""
