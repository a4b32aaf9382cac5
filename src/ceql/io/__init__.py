"""Whatever the caller has, as Arrow record batches in time order."""
