"""The options of commands: those of a study as `assay.experiment.options` declares them, and a few of their own."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from dataclasses import fields
from typing import Annotated, Any

import typer

from assay.errors import ParameterError
from assay.experiment.options import OUTPUT, Declared, Options

__all__ = ["Config", "Explain", "Id", "Json", "Trust", "needed", "options_of", "study_names", "takes"]


def learner_names() -> list[str]:
    """The learners of both tasks, for the shell's completion."""
    from assay.experiment.panel import learners

    return list(dict.fromkeys(learner.name for learner in learners()))


def metric_names(ctx: typer.Context) -> list[str]:
    """The metrics of the task, or of both, for the shell's completion."""
    from assay.experiment.options import TASKS
    from assay.experiment.plan import usable_metrics

    task = ctx.params.get("task")
    return [name for one in TASKS if task in (one, None, "auto") for name in usable_metrics(one)]


def study_names() -> list[str]:
    """The studies of this home, for the shell's completion."""
    from assay.experiment.storage import home

    return sorted(folder.name for folder in (home() / "studies").glob("*") if folder.is_dir())


COMPLETIONS: dict[str, Callable[..., list[str]]] = {"learners": learner_names, "metric": metric_names}

Trust = Annotated[
    list[str] | None,
    typer.Option(
        "--trust",
        metavar="CLASS",
        help="Allow this class of another package (module.Class) in the model file.",
        rich_help_panel=OUTPUT,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.", rich_help_panel=OUTPUT)]
Explain = Annotated[bool, typer.Option("--explain", help="Explain each step, with references.", rich_help_panel=OUTPUT)]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Read options from a file, such as the assay.toml that a run writes; the command line takes precedence.",
        rich_help_panel=OUTPUT,
    ),
]
Id = Annotated[
    str, typer.Argument(metavar="ID", help="The study, or a unique prefix of its name.", autocompletion=study_names)
]


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the declared options with these names (all of them, without a name) in place of `**given`."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        before = [p for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
        after = [p for p in own if p.kind is p.KEYWORD_ONLY]
        wanted = [one for one in fields(Options) if not names or one.name in names]
        hints = typing.get_type_hints(Options)
        declared = [_parameter(one.name, hints[one.name], one.default, one.metadata["declared"]) for one in wanted]
        made: Any = command
        made.__signature__ = inspect.Signature([*before, *declared, *after])
        return command

    return decorate


def _parameter(name: str, hint: Any, default: Any, about: Declared) -> inspect.Parameter:
    """A declared option as a parameter that typer understands."""
    completion = COMPLETIONS.get(name)
    info = typer.Option(
        about.flag or f"--{name.replace('_', '-')}",
        help=about.help + (" Repeatable." if about.many else ""),
        metavar=about.metavar,
        rich_help_panel=about.heading,
        autocompletion=(lambda: list(about.choices)) if completion is None else completion,
    )
    kind: Any = list[str] if about.many else _typed(hint, default, about)
    typed = None if about.many else False if default is True else default  # a flag turns its option round
    hinted = Annotated[kind | None, info] if typed is None else Annotated[kind, info]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=typed, annotation=hinted)


def _typed(hint: Any, default: Any, about: Declared) -> type:
    """What is typed at the command line: text, unless it is a whole number, a number or a flag."""
    if isinstance(default, bool):
        return bool
    if about.parse is not None:
        return str
    return next((kind for kind in (int, float) if hint in (kind, kind | None)), str)


def options_of(ctx: typer.Context, given: dict[str, Any]) -> dict[str, Any]:
    """The options that were typed, as `Study` takes them."""
    about = {one.name: one.metadata["declared"] for one in fields(Options)}
    usual = {one.name: one.default for one in fields(Options)}
    typed = {}
    for name, value in given.items():
        source = ctx.get_parameter_source(name)
        if source is None or source.name == "DEFAULT":
            continue
        if isinstance(value, bool):
            value = not usual[name]
        elif about[name].parse is not None:
            value = about[name].parse(value)
        typed[name] = tuple(value) if isinstance(value, list) else value
    return typed


def needed(value: str | None, name: str) -> str:
    """A value that must come from the command line or from the configuration."""
    if value is None:
        raise ParameterError(f"missing {name}", remedy="see assay run --help")
    return value
