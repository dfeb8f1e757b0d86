"""A disk whose sync takes some milliseconds, for machines whose own disk hardly syncs: a preloaded library that sleeps.

`slow_disk` compiles it with the machine's C compiler. Whatever a process syncs is still synced, and takes `delay_ms`
longer; nothing else changes.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

__all__ = ["slow_disk"]

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>

static int slowly(const char *name, int descriptor)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    struct timespec delay = {DELAY_US / 1000000, DELAY_US % 1000000 * 1000};
    int result = real(descriptor);
    nanosleep(&delay, 0);
    return result;
}

int fsync(int descriptor) { return slowly("fsync", descriptor); }
int fdatasync(int descriptor) { return slowly("fdatasync", descriptor); }
"""


def slow_disk(folder: Path, *, delay_ms: float) -> dict[str, str] | None:
    """The environment of a process whose syncs take `delay_ms` longer; None without a compiler or off Linux."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not Path("/proc/self").exists():
        return None
    source, library = folder / "slow_disk.c", folder / "slow_disk.so"
    source.write_text(_SOURCE, encoding="ascii")
    delay = f"-DDELAY_US={round(delay_ms * 1000)}L"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", delay, "-o", library, source, "-ldl"], check=True)
    return {"LD_PRELOAD": str(library)}
