"""What a sandbox really holds back, read from inside it: one shell script and the reading of its answer. Pure."""

from __future__ import annotations

from collector.qa.sandbox import Guarantee, Limits

__all__ = ["PROBE", "held_from", "process_limit"]

PROBE = r"""
one() { for path in "$@"; do [ -r "$path" ] && { tr '\n' ' ' < "$path"; return; }; done; }
echo "uid $(id -u)"
grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status
echo "memory $(one /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes)"
echo "pids $(one /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max)"
echo "cpu $(one /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us)"
echo "devices $(grep -c -v -e 'lo:' -e '|' /proc/net/dev)"
echo "map $(one /proc/self/uid_map)"
echo "processes $(sed -n 's/^Max processes *//p' /proc/self/limits)"
for place in / /etc /usr /usr/bin /var; do
  if ( : > "$place/.pm-probe" ) 2>/dev/null; then echo "writable $place"; fi
done
exit 0
"""


def held_from(text: str, limits: Limits) -> tuple[Guarantee, ...]:
    """The guarantees that the probe's answer shows, run under `limits`."""
    said = dict(line.replace(":", " ", 1).split(None, 1) for line in text.splitlines() if len(line.split()) > 1)
    held: list[Guarantee] = []
    if _at_most(said.get("memory"), limits.memory_bytes):
        held.append("memory")
    if _at_most(said.get("pids"), limits.pids):
        held.append("pids")
    if _at_most(said.get("cpu"), 10**9) and not said.get("cpu", "").startswith("-"):
        held.append("cpu")
    if said.get("devices", "").strip() == "0":
        held.append("network")
    if "uid" in said and "writable" not in said:
        held.append("read_only")
    if _is_zero(said.get("CapEff")) and _is_zero(said.get("CapBnd")):
        held.append("capabilities")
    if said.get("NoNewPrivs", "").strip() == "1":
        held.append("no_new_privileges")
    if said.get("uid", "0").strip() != "0":
        held.append("not_root")
    if said.get("Seccomp", "").strip() == "2":
        held.append("seccomp")
    if _mapped(said.get("map")):
        held.append("user_mapping")
    return tuple(held)


def _at_most(shown: str | None, limit: int) -> bool:
    first = (shown or "max").split()[0]
    return first.isdigit() and int(first) <= limit


def _is_zero(shown: str | None) -> bool:
    return shown is not None and set(shown.strip()) == {"0"}


def _mapped(shown: str | None) -> bool:
    """Whether ids inside are other ids outside."""
    words = (shown or "").split()
    return len(words) >= 2 and words[0] != words[1]


def process_limit(text: str) -> int | None:
    """The soft limit on processes (RLIMIT_NPROC) that the probe saw; None where there is none."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["processes"] and len(words) > 1:
            return int(words[1]) if words[1].isdigit() else None
    return None
