"""Selection strategies, one file each."""
