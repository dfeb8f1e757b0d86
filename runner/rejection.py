"""Modification prompt: written next."""
