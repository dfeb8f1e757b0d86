"""Next step: written next."""
