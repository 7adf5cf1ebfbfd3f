"""`dicore postbox`: runs the service, and shows what it has."""

from __future__ import annotations

import os
from pathlib import Path

import click

from dicore.errors import UsageError

__all__ = ["command"]


@click.group(name="postbox", epilog="Example: dicore postbox serve --file metrics.sqlite")
def command() -> None:
    """Collects the metrics of many runs in one SQLite file."""


@command.command(epilog="Example: dicore postbox serve --file metrics.sqlite --port 8471")
@click.option("--file", default="postbox.sqlite", show_default=True, help="Where they are kept.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8471, show_default=True, type=click.IntRange(0, 65535))
def serve(file: str, host: str, port: int) -> None:
    """Takes metrics until Ctrl-C."""
    from postbox_rl.logger import TOKEN
    from postbox_rl.service import Service
    from postbox_rl.store import Store

    token = os.environ.get(TOKEN, "")
    if host not in ("127.0.0.1", "::1", "localhost") and not token:
        raise UsageError(
            f"--host {host}: others can reach it, and there is no token",
            hint=f"set {TOKEN} here and where you train",
        )
    store = Store(file)
    try:
        service = Service(store, host=host, port=port, token=token)
    except OSError as error:
        raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    click.echo(f"listening on {service.url}, writing {file}; Ctrl-C ends it")
    try:
        service.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        service.server_close()
        store.close()


@command.command(epilog="Example: dicore postbox runs --file metrics.sqlite")
@click.option("--file", default="postbox.sqlite", show_default=True, help="What the service wrote.")
def runs(file: str) -> None:
    """Lists the runs of a file with their best returns."""
    from postbox_rl.store import Store

    if not Path(file).exists():
        raise UsageError(f"{file}: no such file", hint="dicore postbox serve --file FILE writes it")
    store = Store(file)
    click.echo(f"{'env_step':>10} {'train_iter':>10} {'metrics':>8} {'best_return':>11}  run")
    for each in store.runs():
        best = "" if each["best_return"] is None else f"{each['best_return']:.2f}"
        counts = f"{each['env_step']:10} {each['train_iter']:10} {each['metrics']:8}"
        click.echo(f"{counts} {best:>11}  {each['run']!r}")  # its name is from the network
    store.close()
