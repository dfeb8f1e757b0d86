"""The blobs that a JSON value names: every string under a key that ends in `_blob_id`. Pure."""

from __future__ import annotations

from typing import Any

__all__ = ["named_blobs"]


def named_blobs(value: Any) -> frozenset[str]:
    """Ids under keys ending in `_blob_id`, at any depth; null is none."""
    found: set[str] = set()
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for name, inner in item.items():
                if name.endswith("_blob_id") and isinstance(inner, str):
                    found.add(inner)
                elif isinstance(inner, dict | list):
                    stack.append(inner)
        elif isinstance(item, list):
            stack.extend(item)
    return frozenset(found)
