"""Speed, memory and size of distillation on a generated corpus; no claim in the docs without a line of this output.

python -m benchmarks.distill                         speed on one core against orjson.loads, memory, size
python -m benchmarks.distill --version 1.0.128       the same on the lines of an old version
python -m benchmarks.distill --bulky                 the same on made-up sessions full of whole files
python -m benchmarks.distill --many                  one process against the pool, many files
python -m benchmarks.distill --against PROGRAM       PROGRAM -f md on the same files (claude-code-log from PyPI)

`--against` runs the other program on links to the same files, in a folder of its own, in both ways: as its users run
it (`-f md`: a cache, one file a session and all of them in one), and with nothing but the combined file (`--no-cache`).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.distill_corpus import corpus, native

MEGABYTE = 1_000_000
_ONE = """
import resource, sys
from pathlib import Path
from tracer.distill.one import distill_session
out = Path(sys.argv[1])
for name in sys.argv[2:]:
    distill_session(name, provider="claude", project_root=out.parent, output_dir=out)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
_PARSE = """
import sys, time, orjson
from pathlib import Path
spent = 0.0
for name in sys.argv[1:]:
    lines = Path(name).read_bytes().split(b"\\n")
    begun = time.process_time()
    for line in lines:
        if line:
            orjson.loads(line)
    spent += time.process_time() - begun
print(spent)
"""
_MANY = """
import sys
from pathlib import Path
from tracer.distill.locate.find import session_at
from tracer.distill.many import distill_many
from tracer.distill.native import Request
out = Path(sys.argv[1])
request = Request(project_root=out.parent, output_dir=out)
for _ in distill_many([session_at(Path(name)) for name in sys.argv[3:]], request, workers=int(sys.argv[2])):
    pass
"""


def _python(code: str, *arguments: str) -> tuple[str, float, float]:
    """Output, processor seconds and wall seconds of a fresh process; its bytecode is kept, as where it is installed."""
    command = [sys.executable, "-X", f"pycache_prefix={tempfile.gettempdir()}/pm-benchmark-bytecode", "-c", code]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([*command, *arguments], check=True, stdout=subprocess.PIPE, text=True, env=environ)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - begun
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def one_core(files: list[Path], folder: Path) -> None:
    size, names = sum(path.stat().st_size for path in files), [str(path) for path in files]
    parse = float(_python(_PARSE, *names)[0])
    with tempfile.TemporaryDirectory(dir=folder) as out:
        _python(_ONE, f"{out}/compiled", names[0])
        output, seconds, _ = _python(_ONE, f"{out}/traces", *names)
        kept = sum(path.stat().st_size for path in Path(out, "traces").glob("*.jsonl"))
    print(f"corpus                 {size / MEGABYTE:8.1f} MB in {len(files)} sessions")
    print(f"orjson.loads           {parse:8.2f} s   {size / MEGABYTE / parse:7.1f} MB/s")
    print(f"distill, one core      {seconds:8.2f} s   {size / MEGABYTE / seconds:7.1f} MB/s   (start-up included)")
    print(f"ratio to orjson.loads  {parse / seconds:8.3f}     wanted >= 0.3")
    print(f"peak memory            {float(output.split()[-1]):8.1f} MB   wanted <= 28")
    print(f"size of traces         {100 * kept / size:8.2f} %    wanted <= 10")


def many(files: list[Path], folder: Path) -> None:
    for workers in (1, os.cpu_count() or 1):
        with tempfile.TemporaryDirectory(dir=folder) as out:
            wall = _python(_MANY, f"{out}/traces", str(workers), *map(str, files))[2]
        print(f"{workers} at once: {wall:6.2f} s for {len(files)} sessions")


class Ran(NamedTuple):
    """What a program cost: processor seconds, seconds a person waited, peak MB of its largest process, MB written."""

    processor: float
    waited: float
    peak: float
    written: float


def _theirs(program: str, files: list[Path], folder: Path, *options: str, jobs: int) -> Ran:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        project = Path(place, "-home-dev-proj")
        project.mkdir()
        for path in files:
            (project / path.name).hardlink_to(path)
        environ = {**os.environ, "CLAUDE_CODE_LOG_RENDER_JOBS": str(jobs), "HOME": place}
        command = [program, str(project), "-f", "md", "-j", str(jobs), *options]
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        waited, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
        if status:
            raise SystemExit(f"{program} ended with {os.waitstatus_to_exitcode(status)}")
        written = sum(path.stat().st_size for path in Path(place).rglob("*.md")) / MEGABYTE
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(spent, waited, used.ru_maxrss / 1024, written)


def _ours_as_run(files: list[Path], folder: Path) -> float:
    """Seconds a person waits for `pm distill --all`, start-up and every core included."""
    with tempfile.TemporaryDirectory(dir=folder) as home:
        project = Path(home, ".claude", "projects", "-home-dev-proj")
        project.mkdir(parents=True)
        for path in files:
            (project / path.name).hardlink_to(path)
        root = str(Path(__file__).parents[1])
        environ = {**os.environ, "HOME": home, "PYTHONPATH": root}
        start = "import sys; from repl.cli import main; sys.exit(main())"
        command = [sys.executable, "-c", start, "distill", "--all", "--provider", "claude", "-o", f"{home}/out"]
        begun = time.perf_counter()
        subprocess.run(command, env=environ, cwd=home, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        waited = time.perf_counter() - begun
        if len(list(Path(home, "out").glob("*.jsonl"))) != len(files):
            raise SystemExit("not every session was distilled")
    return waited


def against(program: str, files: list[Path], folder: Path) -> None:
    """One core: processor seconds, so that other work on the machine counts for neither side. All: what one waits."""
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory(dir=folder) as out:
        output, ours, _ = _python(_ONE, f"{out}/traces", *map(str, files))
    size = sum(path.stat().st_size for path in files) / MEGABYTE
    print(f"{size:.0f} MB in {len(files)} sessions, load {os.getloadavg()[0]:.1f} on {cores} cores")
    print(f"ours, one core          {ours:6.1f} s, peak {float(output.split()[-1]):.0f} MB   (wanted <= 100)")
    ways = (("as its users run it", ()), ("one combined file", ("--no-cache",)))
    for name, options in ways:
        one = _theirs(program, files, folder, *options, jobs=1)
        shown = f"{one.processor:6.1f} s, peak {one.peak:.0f} MB, wrote {one.written:.0f} MB"
        print(f"theirs, {name:19} {shown}: ours is {one.processor / ours:.1f} times as fast   (wanted >= 6)")
    ours_waited = _ours_as_run(files, folder)
    print(f"pm distill --all, {cores} cores {ours_waited:6.1f} s waited")
    for name, options in ways:
        waited = _theirs(program, files, folder, *options, jobs=cores).waited
        print(f"theirs, {name:19} {waited:6.1f} s waited: ours is {waited / ours_waited:.1f} times as fast")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--each", type=int, default=10, help="megabytes a session")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "pm-benchmark-distill")
    parser.add_argument("--bulky", action="store_true")
    parser.add_argument(
        "--version", default="", help="of Claude Code: 1.0.128, 2.0.76, 2.1.197; the newest if left out"
    )
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--against", metavar="PROGRAM")
    options = parser.parse_args(arguments or [])
    total, each = options.megabytes * MEGABYTE, options.each * MEGABYTE
    if options.bulky:
        files = corpus(options.folder, total, each=each)
    else:
        files = native(options.folder, total, each=each, version=options.version)
    if options.against:
        against(options.against, files, options.folder)
    elif options.many:
        many(files, options.folder)
    else:
        one_core(files, options.folder)


if __name__ == "__main__":
    main(sys.argv[1:])
