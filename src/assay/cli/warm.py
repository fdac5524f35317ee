"""The command `warm`: kernels compiled before they are needed."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from assay.cli import out
from assay.errors import StoreError

__all__ = ["warm"]


def warm(
    family: Annotated[
        list[str] | None, typer.Argument(metavar="[FAMILY]...", help="Such as linear or trees (default: all).")
    ] = None,
    n_jobs: Annotated[
        int | None, typer.Option("--n-jobs", metavar="N", help="Number of workers (default: all cores).")
    ] = None,
) -> None:
    """Compile the kernels of all or some families now, in parallel, instead of at their first use.

    Example: assay warm linear trees
    """
    from assay.numerics.jit import cache_directory, first_announcement
    from assay.numerics.threads import cores, workers
    from assay.warm import declared, pending, start

    names = list(declared(family or ()))
    where = cache_directory()
    if where is None:
        message = "no writable directory for compiled kernels"
        raise StoreError(message, remedy="set the environment variable NUMBA_CACHE_DIR to one")
    left = pending(names)
    failed: dict[str, str] = {}
    began = time.monotonic()
    bar = (TextColumn("compiling"), BarColumn(30), MofNCompleteColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*bar, console=out.notices(), transient=True) as progress:
        task = progress.add_task("", total=len(left))

        def done(name: str, error: str | None) -> None:
            progress.update(task, advance=1, description=name)
            if error is not None:
                failed[name] = error

        running = start(left, cores() if n_jobs is None else workers(n_jobs), done)
        try:
            running.wait()
        finally:
            running.close()
    first_announcement()  # whoever warms up knows
    for name, error in failed.items():
        out.complain(f"{name} could not be compiled ({error})")
    ready = len(names) - len(failed)
    typer.echo(
        f"{ready} of {len(names)} warm-ups compiled, {len(left)} of them now in {time.monotonic() - began:.0f} s"
    )
    typer.echo(f"kernels are cached in {where}")
    if failed:
        raise typer.Exit(1)
