"""Slow, obvious versions of everything fast: the definitions, no cleverness; one file per room."""
