"""Brings rows what they need: Debian's packages, PyPI's and npm's by their ordinary clients, and what a row builds itself."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from row import Row

# Compilers take a minute where the machine has other work, and Debian's larger packages as long to come.
PATIENCE = 1800.0
CONSTRAINTS = Path(__file__).with_name("constraints.txt")


class Missing(Exception):
    """The row can't be run here, and why."""


class Kitchen:
    """What rows find installed: everything but Debian's packages below one folder."""

    def __init__(self, target: Path, me: str = "test-wild"):
        self.target = target
        # Whose words these are.
        self.me = me
        self.venv = target / "venv"
        self.npm = target / "npm"
        self.debian: set[str] | None = None
        self.pypi: set[str] = set()

    def run(self, what: str, command: Sequence[str], helps: str, **more: object) -> str:
        """Run what installs, and say its last words if it fails."""
        log = self.target / "install.log"
        nice = ["nice", "-n", "10", *command]
        try:
            done = subprocess.run(
                nice, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE, **more
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Missing(f"{what}: {error}; {helps}") from error
        said = done.stdout.decode(errors="replace")
        with open(log, "a", encoding="utf-8") as f:
            f.write(f"\n==> {what}: {' '.join(command)}\n{said}")
        if done.returncode:
            last = (said.strip().splitlines() or ["it says nothing"])[-1]
            raise Missing(f"{what}: {last[:200]}; {helps}, and {log} has the rest")
        return said

    def install_debian(self, packages: Sequence[str]) -> None:
        if self.debian is None:
            said = self.run(
                "asking dpkg what is installed",
                ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n"],
                "the trial needs Debian 12, or what is like it",
            )
            self.debian = {line.split()[1] for line in said.splitlines() if line.startswith("installed ")}
        missing = [one for one in packages if one not in self.debian]
        if not missing:
            return
        print(f"{self.me}: installing of Debian: {' '.join(missing)}", file=sys.stderr)
        root = [] if os.getuid() == 0 else ["sudo", "--"]
        # Beside what is there already, no service is started, where the system asks by policy-rc.d or runlevel.
        command = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "RUNLEVEL=1", "apt-get", "install", "-y"]
        command += ["--no-install-recommends", "--no-upgrade", *missing]
        self.run(f"installing {' '.join(missing)}", command, "try `apt-get update` first")
        self.debian.update(missing)

    def install_pypi(self, packages: Sequence[str]) -> None:
        if not packages:
            return
        if not (self.venv / "bin/python").exists():
            self.run("making a virtual environment", [sys.executable, "-m", "venv", str(self.venv)], "is there python3-venv?")
        if not self.pypi:
            listed = self.run(
                "asking pip what is installed",
                [str(self.venv / "bin/pip"), "list", "--format=json", "--disable-pip-version-check"],
                f"remove {self.venv} to begin anew",
            )
            self.pypi = {canonical(one["name"]) for one in json.loads(listed[listed.index("[") :].splitlines()[0])}
        # With ==VERSION, which pip compares with the constraints.
        missing = [one for one in packages if canonical(one.split("==")[0]) not in self.pypi]
        if not missing:
            return
        print(f"{self.me}: installing from PyPI: {' '.join(missing)}", file=sys.stderr)
        command = [str(self.venv / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
        command += ["--constraint", str(CONSTRAINTS), *missing]
        self.run(f"installing {' '.join(missing)} from PyPI", command, "is there a network, and a wheel for this Python?")
        self.pypi.update(canonical(one.split("==")[0]) for one in missing)

    def install_npm(self, packages: Sequence[str]) -> None:
        names = {one: one.rsplit("@", 1)[0] if "@" in one[1:] else one for one in packages}
        missing = [one for one, name in names.items() if not (self.npm / "node_modules" / name / "package.json").exists()]
        if not missing:
            return
        print(f"{self.me}: installing from npm: {' '.join(missing)}", file=sys.stderr)
        node = shutil.which("node")
        if not node:
            raise Missing("installing from npm: there is no node; install Node.js 20")
        # What is built here needs node's headers; where they came with node, nothing else is asked for them.
        prefix = Path(node).resolve().parent.parent
        headers = {"npm_config_nodedir": str(prefix)} if (prefix / "include/node/node.h").exists() else {}
        self.npm.mkdir(exist_ok=True)
        command = ["npm", "install", "--prefix", str(self.npm), "--no-audit", "--no-fund", "--save-exact", *missing]
        try:
            self.run(f"installing {' '.join(missing)} from npm", command, "is there a network?", env=os.environ | headers | {"JOBS": "2"})
        except Missing:
            # npm leaves behind what it could not build, and would be taken for installed the next time.
            for one in missing:
                shutil.rmtree(self.npm / "node_modules" / names[one], ignore_errors=True)
            raise

    def prepare(self, row: Row) -> None:
        """Write the row's files and have it build what it needs, once for each wording of it."""
        kit = self.kit(row)
        stamp = kit / ".prepared"
        wording = hashlib.sha256(repr((row.files, row.prepare)).encode()).hexdigest()
        if stamp.exists() and stamp.read_text(encoding="utf-8") == wording:
            return
        shutil.rmtree(kit, ignore_errors=True)
        kit.mkdir(parents=True)
        for name, text in row.files.items():
            (kit / name).parent.mkdir(parents=True, exist_ok=True)
            (kit / name).write_text(text, encoding="utf-8")
        if row.prepare:
            # The user's own HOME: what builds keeps its caches there.
            env = os.environ | self.environment(row, kit) | {"HOME": os.environ.get("HOME", "/")}
            self.run(f"preparing {row.name}", ["bash", "-euc", row.prepare], "its row says how", cwd=kit, env=env)
        stamp.write_text(wording, encoding="utf-8")

    def provide(self, row: Row) -> None:
        self.install_debian(row.apt)
        self.install_pypi(row.pip)
        self.install_npm(row.npm)
        self.prepare(row)

    def kit(self, row: Row) -> Path:
        return self.target / "kits" / row.name

    def environment(self, row: Row, work: Path) -> dict[str, str]:
        """Little, and the same each time: what of the user's own is needed to find toolchains, and how OpenBLAS may compute."""
        home = Path(os.environ.get("HOME", "/"))
        kept = {name: os.environ[name] for name in ("PATH", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE") if name in os.environ}
        return kept | {
            "HOME": str(work),
            "TMPDIR": str(work),
            "WORK": str(work),
            "KIT": str(self.kit(row)),
            "VENV": str(self.venv),
            # The Python of the trial itself: what PATH has may be a script that finds the real one by HOME.
            "PYTHON": sys.executable,
            "NODE_PATH": str(self.npm / "node_modules"),
            "LANG": "C.UTF-8",
            "LC_ALL": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "CARGO_HOME": os.environ.get("CARGO_HOME", str(home / ".cargo")),
            "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", str(home / ".rustup")),
            "GOTOOLCHAIN": "local",
            # OpenMP's threads would wait by computing, as long as others take the CPUs: noise, of which no row is made.
            "OMP_WAIT_POLICY": "passive",
        }


def canonical(name: str) -> str:
    """As PyPI compares names."""
    return name.lower().replace("_", "-").replace(".", "-")
