"""Writes the badges of the packages in examples/plugins: `python release/badges.py [NAME …]`.

Each package is built, installed into a new environment and checked. Of those with a preset, a
training is stopped in the middle, resumed to its end, and compared with a second training from the
beginning, bit for bit (`dicore verify`). The badges are written into the source folders: commit
them, and the wheels have them. A change of the code makes them void; tests/installed says so.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from layers import install, layer

from dist import ROOT, run

PLUGINS = ROOT / "examples/plugins"
RUNS = {
    "rooms-rl": "two_rooms_dqn",
    "mellow-dqn": "cartpole_mellow_dqn",
    "combined-replay": "cartpole_combined_dqn",
}
"""Presets whose trainings are verified."""
_PATIENCE_S = 300


def write_badge(name: str, place: Path) -> None:
    """Writes the badge of a package into its source folder.

    Args:
        name: Its folder in examples/plugins.
        place: An empty folder.
    """
    project = PLUGINS / name
    run([sys.executable, "-m", "build", "-n", "-w", "-o", str(place), str(project)])
    python = layer(place / "env", sys.executable)
    if problem := install(python, "--no-deps", "--no-index", str(*place.glob("*.whl"))):
        raise SystemExit(problem)
    dicore = [python, "-c", "import sys; from dicore.cli import main; sys.exit(main())"]
    words = ["check", name, "--badge"]
    if name in RUNS:
        _interrupted([*dicore, "train", RUNS[name], "--exp-name", "run"], place)
        run([*dicore, "train", "--resume", "run"], place)
        _make_key(place)
        run([*dicore, "verify", "run", "--sign", "key"], place)
        words += ["--verified", "run", "key.pub"]
    run([*dicore, *words], place)
    package = name.replace("-", "_")
    for file in (place / "env").glob(f"[Ll]ib/**/site-packages/{package}/dicore-badge.*"):
        shutil.copy(file, project / package)


def _interrupted(words: list[str], place: Path) -> None:
    """Starts a training and stops it as Ctrl-C does, once it has learned something."""
    print("$", *words, "(interrupted)", flush=True)
    process = subprocess.Popen(words, cwd=place)  # noqa: S603 - our own words
    until = time.monotonic() + _PATIENCE_S
    metrics = place / "run/log/metrics.jsonl"
    while not metrics.is_file() or metrics.stat().st_size == 0:
        if process.poll() is not None or time.monotonic() > until:
            process.kill()
            raise SystemExit(f"{place.name}: nothing was learned before the end")
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    if process.wait() != 128 + signal.SIGINT:
        raise SystemExit(f"the training ended with {process.returncode} before it was stopped")


def _make_key(place: Path) -> None:
    """Writes a pair of Ed25519 keys, which is gone afterwards: the badge has its fingerprint."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.generate()
    pem, secret = form.Encoding.PEM, form.PrivateFormat.PKCS8
    (place / "key").write_bytes(key.private_bytes(pem, secret, form.NoEncryption()))
    public = form.PublicFormat.SubjectPublicKeyInfo
    (place / "key.pub").write_bytes(key.public_key().public_bytes(pem, public))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="*", help="packages; all of them, if none is named")
    for each in parser.parse_args().name or sorted(path.name for path in PLUGINS.iterdir()):
        with tempfile.TemporaryDirectory(prefix="dicore-badge-") as temporary:
            write_badge(each, Path(temporary))
