"""Prints a greeting."""

from __future__ import annotations

import click


@click.command(name="hello", epilog="Example: dicore hello --name you")
@click.option("--name", default="world", show_default=True, help="Name to greet.")
def command(name: str) -> None:
    """Prints a greeting."""
    click.echo(f"hello, {name}")
