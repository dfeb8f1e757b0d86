"""Figures, each as a ratio to a baseline measured in the same run. `make bench` runs them all."""
