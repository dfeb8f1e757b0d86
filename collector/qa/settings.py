"""The settings of the quality checks as one frozen value (`qa.*`; docs/qa.md tells what each is for)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from collector.qa.dependencies import KeptLayers
from collector.qa.profiles import AllowLists
from collector.qa.sandbox.choose import SandboxMode
from collector.qa.sandbox.port import Limits
from tracer.capture.wire import Runner
from tracer.settings.layers import Settings

_MB: Final = 1 << 20
_IMAGES: Final[Mapping[Runner, str]] = {
    "pytest": "qa.python_image",
    "go test": "qa.go_image",
    "npm test": "qa.node_image",
    "make test": "qa.make_image",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QaSettings:
    """How traces are tested on this server. `waits_s`: the pauses between tries when the sandbox fails us."""

    sandbox: SandboxMode = "auto"
    pull: bool = False
    lists: AllowLists
    remotes: tuple[str, ...] = ()
    mirrors: tuple[str, ...] = ()
    repeats: int = 3
    limits: Limits = field(default_factory=Limits)
    network_name: str = "bridge"
    build_proxy: str = ""
    layers: KeptLayers | None = None
    trials: int = 10
    """At most so many planted faults for the strength of a proof; 0: no trials."""
    waits_s: tuple[float, ...] = (1.0, 5.0)

    def as_json(self) -> dict[str, JsonValue]:
        """What a result depends on: a part of the inputs that a step is keyed by."""
        return {
            "sandbox": self.sandbox,
            "repeats": self.repeats,
            "limits": [self.limits.memory_bytes, self.limits.pids, self.limits.cpus, self.limits.time_s],
            "workspace": self.limits.workspace_bytes,
            **({"trials": self.trials} if self.trials else {}),
        }


def qa_settings(settings: Settings, *, cache: Path | None = None) -> QaSettings:
    """The settings in force; `cache` is where dependencies are kept."""
    limits = Limits(
        memory_bytes=int(settings.get("qa.memory_mb")) * _MB,
        pids=int(settings.get("qa.pids")),
        cpus=float(settings.get("qa.cpus")),
        time_s=float(settings.get("qa.timeout")),
        output_bytes=int(settings.get("qa.output_mb")) * _MB,
        workspace_bytes=int(settings.get("qa.workspace_mb")) * _MB,
    )
    images = {runner: str(settings.get(key)) for runner, key in _IMAGES.items()}
    return QaSettings(
        sandbox=settings.get("qa.sandbox"),
        pull=bool(settings.get("qa.pull")),
        lists=AllowLists(
            images=(*settings.get("qa.images"), *images.values()),
            commands=tuple(settings.get("qa.commands")),
            build_commands=tuple(settings.get("qa.build_commands")),
            build_network=bool(settings.get("qa.build_network")),
            default_images=(*images.items(), ("custom", images["pytest"])),
        ),
        remotes=tuple(settings.get("qa.remotes")),
        mirrors=tuple(settings.get("qa.mirrors")),
        repeats=int(settings.get("qa.repeats")),
        limits=limits,
        network_name=str(settings.get("qa.network_name")),
        trials=int(settings.get("qa.trials")),
        build_proxy=str(settings.get("qa.build_proxy") or ""),
        layers=KeptLayers(cache, most_bytes=int(settings.get("qa.cache_mb")) * _MB) if cache is not None else None,
    )


def mirror_of(names: Iterable[str], mirrors: Sequence[str]) -> str:
    """The address of the first of the operator's mirrors (`PATTERN=ADDRESS`) that is for one of these names."""
    for entry in mirrors:
        pattern, _, address = entry.partition("=")
        if any(fnmatchcase(name, pattern) for name in names):
            return address
    return ""
