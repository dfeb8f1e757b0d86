"""What an agent really changed: the disk compared with a baseline that was durable before the agent was asked."""

from __future__ import annotations

from runner.workspace.model import Blobs, Changes, ComparisonError, Limits, safe_text
from runner.workspace.release import release_baselines
from runner.workspace.workspace import Workspace, open_workspace

__all__ = [
    "Blobs",
    "Changes",
    "ComparisonError",
    "Limits",
    "Workspace",
    "open_workspace",
    "release_baselines",
    "safe_text",
]
