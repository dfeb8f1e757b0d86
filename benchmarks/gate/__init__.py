"""How well the gate judges work that nobody tuned it to (docs/criteria.md, "Measured on unseen work")."""
