"""How the gate judges unseen work: `python -m benchmarks.gate commits|cost|cheats|from-debian|from-releases …`."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.gate import cheats, debian, releases
from benchmarks.gate.commits import Door, Judged, draw, half_of, lazy_results

NEEDS_TESTS = {"one hunk reverted"}  # nothing in text, syntax or on disk shows it


def wilson(hits: int, total: int) -> tuple[float, float]:
    """The interval of a rate at 95 %."""
    if not total:
        return (0.0, 1.0)
    z = 1.96
    rate, square = hits / total, z * z / total
    middle, half = rate + square / 2, z * math.sqrt(rate * (1 - rate) / total + square / (4 * total))
    return (max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square)))


def rate(hits: int, total: int) -> dict[str, Any]:
    """A rate with what it rests on."""
    low, high = wilson(hits, total)
    return {"hits": hits, "of": total, "rate": hits / total if total else 0.0, "low": low, "high": high}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Draw, make and judge; the report."""
    cases: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="pm-bench-gate-") as scratch:
        door = Door(Path(scratch))
        repositories = [repo for repo in options.repositories if options.half in {"all", half_of(repo)}]
        for repository in repositories:
            commits = draw(repository, options.each, options.seed, options.author)
            for commit in sorted(commits, key=lambda one: one.child):
                door.stand_at(commit)
                finished = commit.finished(Random(f"{options.seed} {commit.child} answer"))
                about = {"repository": repository.name, "commit": commit.child, "language": commit.language}
                cases.append({**about, "pattern": "", **_kept(await door.judge(commit, finished, parse=True))})
                for name, result in lazy_results(commit, options.seed, options.lazy):
                    cases.append({**about, "pattern": name, **_kept(await door.judge(commit, result))})
            sys.stderr.write(f"{repository.name}: {len(commits)}\n")
    return {**summary(cases), "seed": options.seed, "half": options.half, "repositories": len(repositories),
            "measured": _version(), **({} if options.rates else {"cases": cases})}  # fmt: skip


def _kept(judged: Judged) -> dict[str, Any]:
    return {"passed": judged.passed, "asks": judged.asks, "reason": judged.reason,
            "ms": judged.seconds * 1000, "parse_ms": judged.parse_s * 1000}  # fmt: skip


def summary(cases: list[dict[str, Any]]) -> dict[str, Any]:
    """Rates over all, by language and by pattern; times of the finished ones."""
    finished = [case for case in cases if not case["pattern"]]
    lazy = [case for case in cases if case["pattern"]]

    def wrong(of: list[dict[str, Any]]) -> dict[str, Any]:
        return rate(sum(case["passed"] == bool(case["pattern"]) for case in of), len(of))

    def by(key: str, of: list[dict[str, Any]]) -> dict[str, Any]:
        groups = defaultdict(list)
        for case in of:
            groups[case[key]].append(case)
        return {name: wrong(group) for name, group in sorted(groups.items())}

    def times(of: list[dict[str, Any]]) -> dict[str, Any]:
        ratios = [case["ms"] / case["parse_ms"] for case in of if case["parse_ms"] > 0]
        return {
            "of": len(of),
            "median_ms": statistics.median(case["ms"] for case in of) if of else None,
            "median_times_parsing": statistics.median(ratios) if ratios else None,
        }

    languages = sorted({case["language"] for case in finished})
    return {
        "finished_rejected": wrong(finished), "finished_by_language": by("language", finished),
        "lazy_missed": wrong(lazy),
        "lazy_missed_that_can_be_shown": wrong([case for case in lazy if case["pattern"] not in NEEDS_TESTS]),
        "lazy_by_pattern": by("pattern", lazy), "lazy_by_language": by("language", lazy),
        "times": {"all": times(finished)}
        | {name: times([case for case in finished if case["language"] == name]) for name in languages},
    }  # fmt: skip


def _version() -> str:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def shown(report: dict[str, Any]) -> str:
    """The report for people."""
    lines = [
        f"measured {report['measured']}, seed {report['seed']}, {report['half']}, {report['repositories']} repositories"
    ]
    keys = ("finished_rejected", "lazy_missed", "lazy_missed_that_can_be_shown")
    lines += [f"{key.replace('_', ' '):<42} {_row(report[key])}" for key in keys]
    for key in ("finished_by_language", "lazy_by_language", "lazy_by_pattern"):
        lines.append(f"\n{key.replace('_', ' ')}")
        lines += [f"  {name:<40} {_row(one)}" for name, one in report[key].items()]
    for name, one in report["times"].items() if report["times"]["all"]["of"] else ():
        ratio = one["median_times_parsing"]
        told = f", {ratio:.1f} times parsing" if ratio else ""
        lines.append(f"judging, {name}: median {one['median_ms']:.1f} ms{told}, of {one['of']}")
    return "\n".join(lines) + "\n"


def _row(one: dict[str, Any]) -> str:
    return (
        f"{100 * one['rate']:5.1f} %  [{100 * one['low']:.1f}, {100 * one['high']:.1f}]  {one['hits']} of {one['of']}"
    )


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, wanted in (("commits", 25), ("cost", 25)):
        made = commands.add_parser(name)
        made.add_argument("repositories", nargs="+", type=Path)
        made.add_argument("--each", type=int, default=wanted, help="commits of one repository at most")
        made.add_argument("--lazy", type=int, default=6 if name == "commits" else 0, help="lazy results of a commit")
        made.add_argument("--half", choices=("tuning", "held-out", "all"), default="all")
        made.add_argument("--rates", action="store_true", help="no single case is shown or written")
        made.add_argument("--author", default="", help="only commits of this one (`upstream`: see from-debian)")
        made.add_argument("--seed", type=int, default=11)
        made.add_argument("--json", type=Path, help="write the report there")
    made = commands.add_parser("cheats")
    made.add_argument("names", nargs="*")
    made.add_argument("--verify", action="store_true", help="only show that the labels are right")
    made.add_argument("--rates", action="store_true", help="no single case is shown")
    for name in ("from-debian", "from-releases"):
        made = commands.add_parser(name)
        made.add_argument("names", nargs="+")
        made.add_argument("--into", type=Path, default=Path("gate-material"))
    options = parser.parse_args(arguments)
    if options.command in {"from-debian", "from-releases"}:
        gather = debian.gather if options.command == "from-debian" else releases.gather
        sys.stdout.writelines(f"{folder}\n" for folder in gather(options.names, options.into.resolve()))
        return 0
    if options.command == "cheats":
        return cheats.run(options.names, verify=options.verify, rates=options.rates)
    report = asyncio.run(measure(options))
    sys.stdout.write(shown(report))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
