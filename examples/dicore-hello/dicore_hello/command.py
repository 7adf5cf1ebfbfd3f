"""Says hello."""

from __future__ import annotations

import click


@click.command(name="hello", epilog="Example: dicore hello --name you")
@click.option("--name", default="world", show_default=True, help="Whom to greet.")
def command(name: str) -> None:
    """Says hello."""
    click.echo(f"hello, {name}")
