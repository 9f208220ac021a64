"""Connections to other libraries, where people already work: one file each, loaded by its own name."""
