"""The command line: `assay run houses.csv --target price`, and the commands around it.

Commands parse, call and print; what is computed lives in `assay.experiment`. Results go to standard output, progress
and errors to standard error. Exit codes: 0 done, 1 failed, 2 bad usage or bad data, 128 + the signal that stopped it
(130: Ctrl-C).
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from assay import __version__, interrupts
from assay.cli import live, out, run, show, warm
from assay.errors import AssayError, DataError, DataTypeError, ParameterError

__all__ = ["app", "main"]

BAD_INPUT = (DataError, DataTypeError, ParameterError, FileNotFoundError, IsADirectoryError, NotADirectoryError)


def _without_types(params: list[Any]) -> list[Any]:
    """Drop the types of flags and arguments, which only clutter the help."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
        elif param.param_type_name == "argument" and hasattr(param, "display_type_rich"):
            param.display_type_rich = lambda ctx: None
    return params


class Command(TyperCommand):
    """A command whose help shows no types."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Arguments and options."""
        return _without_types(super().get_params(ctx))


class Commands(TyperGroup):
    """The commands, with every error turned into a sentence and an exit code."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Options of the program itself."""
        return _without_types(super().get_params(ctx))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command that `args` names, and leave with its exit code."""
        told = sys.argv[1:] if args is None else list(args)
        live.begin(told)
        try:
            code = super().main(told, prog_name, complete_var, False, windows_expand_args, **extra)
        except Exception as error:
            if not standalone_mode:
                raise
            code = _failed(error, told)
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an interrupt is answered here, before typer makes it a bare exit code."""
        try:
            with interrupts.working():
                return super().invoke(ctx)
        except KeyboardInterrupt:
            interrupts.say()
            raise typer.Exit(interrupts.code()) from None


def _failed(error: Exception, args: Sequence[str]) -> int:
    """Print what went wrong in one sentence; return the exit code."""
    message, code = _sentence(error)
    width = out.LONGEST if getattr(error, "option", None) is None else out.COMMAND
    if not message:  # no arguments: the help has been shown
        return code
    if os.environ.get("ASSAY_DEBUG") == "1":
        traceback.print_exception(error)
    out.complain(message, width)
    if "--json" in args:
        out.document({"error": out.clean(message, width), "exit": code})
    return code


def _sentence(error: Exception) -> tuple[str, int]:
    if isinstance(error, AssayError):
        whole = "" if error.option is None else f": {live.again(*error.option)}"
        return f"{out.clean(error) if whole else error}{whole}", 2 if isinstance(error, BAD_INPUT) else 1
    if hasattr(error, "format_message"):  # a usage error; its class is click's or typer's own, by version
        context = getattr(error, "ctx", None)
        path = "assay" if context is None else context.command_path
        message = error.format_message().rstrip(".")
        return message and f"{message}{'' if message.endswith('?') else ';'} see {path} --help", 2
    if isinstance(error, OSError):
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{(error.strerror or str(error)).lower()}", 2 if isinstance(error, BAD_INPUT) else 1
    if isinstance(error, MemoryError):
        again = live.again("n-jobs", "1")
        return f"out of memory; use fewer rows or columns, a smaller panel, or a single worker: {again}", 1
    if any(kind.__name__ == "BrokenProcessPool" for kind in type(error).__mro__):
        again = live.again("n-jobs", "1")
        return (
            f"a worker process died, probably out of memory; use fewer rows, or a single worker: {again}",
            1,
        )
    name = type(error).__name__
    return f"this is a bug in assay, please report it ({name}: {error}); ASSAY_DEBUG=1 shows the traceback", 1


def _version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"assay {__version__}\n")
        raise typer.Exit


app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.callback()
def _entry(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """From a table to a result you can defend.

    Start with: assay run houses.csv --target price
    """


_commands: tuple[Callable[..., None], ...] = (
    run.run,
    run.resume,
    run.open_,
    run.finalize,
    run.demo,
    run.predict,
    run.convert,
    show.history,
    show.compare,
    show.show,
    show.report,
    show.verify,
    show.learners,
    show.doctor,
    warm.warm,
)
for _command in _commands:
    app.command(_command.__name__.rstrip("_"), cls=Command)(_command)


def main() -> None:
    """The command line, for `assay.__main__`, which watches for signals first."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that lacks a letter shows a question mark, not a traceback
    app(prog_name="assay")
