"""The version as a constant: `importlib.metadata` costs more than a whole `pm version` may take."""

VERSION = "0.1.0"
