"""Frameworks that call us: thin, lazy, one file each."""
