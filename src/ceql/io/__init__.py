"""Inputs of any kind to Arrow record batches in time order; keys of events as numbers."""
