"""Fold: written next."""
