"""Frozen state: written next."""
