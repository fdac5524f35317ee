"""The options of a study, declared once: for Python, the command line, configuration files and the docs.

A field of `Options` has a type, a default, a range, a sentence, and a heading in the command line's help. `Study` and
`run` get their signature from here (`with_options`), `assay run` its options, and `assay.toml`, which every run writes,
its keys. Standard library only, so that `assay --help` is quick.
"""

from __future__ import annotations

import inspect
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from assay.errors import DataError, ParameterError

__all__ = [
    "CORRECTIONS",
    "JUDGING",
    "OUTPUT",
    "PANELS",
    "PROTOCOLS",
    "QUESTION",
    "TASKS",
    "TEST",
    "Declared",
    "Options",
    "config_text",
    "cost_of",
    "declared",
    "folds_of",
    "kinds_of",
    "rate_of",
    "read_config",
    "share",
    "texts_of",
    "with_options",
    "words_of",
]

QUESTION, JUDGING, TEST, OUTPUT = "Data and task", "Evaluation", "The test set", "Execution and output"
TASKS = ("regression", "classification")
PANELS = ("quick", "standard", "thorough")
RULES = ("best", "readable")
PROTOCOLS = ("holdout", "loo", "5x2")
CORRECTIONS = ("max-t", "holm", "bonferroni", "sidak", "hochberg", "bh", "by")

Taker = TypeVar("Taker", bound=Callable[..., Any])


@dataclass(frozen=True)
class Declared:
    """What is declared of an option beside its type and default.

    | field   | meaning                                                                    |
    |---------|----------------------------------------------------------------------------|
    | help    | a sentence                                                                 |
    | heading | where it stands in the help                                                |
    | metavar | what stands for its value there                                            |
    | range   | its values, in words                                                       |
    | choices | its values, where they are few                                             |
    | least   | the least whole number                                                     |
    | flag    | its name on the command line, where that is another                        |
    | many    | whether it can be given several times there                                |
    | parse   | from the text that is typed there to its value                             |
    """

    help: str
    heading: str
    metavar: str | None = None
    range: str = ""
    choices: tuple[str, ...] = ()
    least: int | None = None
    flag: str | None = None
    many: bool = False
    parse: Callable[[Any], Any] | None = None


def _option(default: Any, help: str, heading: str, metavar: str | None = None, **more: Any) -> Any:
    return field(default=default, metadata={"declared": Declared(help, heading, metavar, **more)})


def share(text: str) -> float | str:
    """The share of test rows, "auto" or "none"."""
    if text in ("auto", "none"):
        return text
    try:
        return float(text)
    except ValueError:
        remedy = "pass a fraction such as 0.25, none, or auto"
        raise ParameterError(f"--test-size {text!r} is not a number", remedy=remedy) from None


def folds_of(text: str) -> int | str:
    """The number of folds, or the name of another protocol.

    >>> folds_of("5"), folds_of("loo")
    (5, 'loo')
    """
    return int(text) if text.strip().isdecimal() else text


def kinds_of(pairs: Sequence[str]) -> dict[str, str]:
    """COL=KIND pairs; a column's name may hold = itself.

    >>> kinds_of(["zip=category", "a=b=number"])
    {'zip': 'category', 'a=b': 'number'}
    """
    kinds = {}
    for pair in pairs:
        name, sign, kind = pair.rpartition("=")
        if not sign or not name:
            raise ParameterError(f"--kind {pair!r} is not COL=KIND", remedy="write it as --kind zip=category")
        kinds[name] = kind
    return kinds


def texts_of(rules: Sequence[str]) -> dict[str, list[str]]:
    """TEXT,TEXT for every column ("*"), or COL=TEXT,TEXT for one; a text may hold = itself.

    >>> texts_of(["-,unknown", "basement=", "wall=None", "crp=<=0.5"])
    {'*': ['-', 'unknown'], 'basement': [], 'wall': ['None'], 'crp': ['<=0.5']}
    """
    found: dict[str, list[str]] = {}
    for rule in rules:
        name, sign, texts = rule.partition("=")
        where, texts = (name, texts) if sign else ("*", rule)
        found.setdefault(where, []).extend(text for text in texts.split(",") if text)
    return found


TEXTS = ("metric", "group", "time", "reason", "reseal", "unit")
"""Options that are text or nothing."""
RATES = ("sensitivity", "specificity", "precision", "positive")


def _pairs(given: Any) -> dict[str, float]:
    """name=number pairs, however they are separated; a mapping or a pair as it is."""
    if isinstance(given, str):
        given = dict(part.partition("=")[::2] for part in re.split(r"[\s,]+", given.strip()))
    elif not isinstance(given, Mapping):
        given = dict([given])
    return {str(name): float(value) for name, value in given.items()}


def cost_of(given: Any) -> dict[str, float]:
    """What a missed row of the rarer class and a false alarm cost.

    >>> cost_of("missed=10 false=1")
    {'missed': 10.0, 'false': 1.0}
    """
    try:
        found = _pairs(given)
    except (TypeError, ValueError):
        found = {}
    if set(found) != {"missed", "false"} or not all(0 < one < float("inf") for one in found.values()):
        raise ParameterError(f"cost = {given!r} is not valid", remedy='write it as "missed=10 false=1", both above 0')
    return {"missed": found["missed"], "false": found["false"]}


def rate_of(given: Any) -> tuple[str, float]:
    """A rate of the rarer class, and the share that it must reach.

    >>> rate_of("sensitivity=0.9")
    ('sensitivity', 0.9)
    """
    try:
        ((name, value),) = _pairs(given).items()
    except (TypeError, ValueError):
        name, value = "", 0.0
    if name not in RATES or not 0 < value < 1:
        remedy = f'write it as "sensitivity=0.9", with one of {", ".join(RATES)} and a share between 0 and 1'
        raise ParameterError(f"rate = {given!r} is not valid", remedy=remedy)
    return name, value


@dataclass(frozen=True, kw_only=True)
class Options:
    """What can be asked of a study; `declared` gives the sentences."""

    task: str = _option("auto", "auto, regression or classification.", QUESTION, "TASK", choices=("auto", *TASKS))
    kinds: Mapping[str, str] | None = _option(
        None,
        "Set a column's kind: number, category, date, text or id.",
        QUESTION,
        "COL=KIND",
        range="column -> kind",
        flag="--kind",
        many=True,
        parse=kinds_of,
    )
    missing: Mapping[str, Sequence[str]] | None = _option(
        None,
        "Texts read as missing beside empty cells, separated by commas, in all columns or in one (COL= for none).",
        QUESTION,
        "[COL=]TEXTS",
        range='column, or "*" for all -> texts',
        many=True,
        parse=texts_of,
    )
    drop: Sequence[str] = _option(
        (), "Leave this column out; it still tells rows apart.", QUESTION, "COL", range="columns", many=True
    )
    panel: str = _option("quick", "quick, standard or thorough.", JUDGING, "PANEL", choices=PANELS)
    learners: Sequence[str] = _option(
        (),
        "Run this learner instead of a panel, also lightgbm, xgboost or catboost; module:Class for your own.",
        JUDGING,
        "NAME",
        range="names, lightgbm, xgboost, catboost, or module:Class",
        flag="--learner",
        many=True,
    )
    metric: str | None = _option(
        None,
        "Metric to select by, such as mae or log_loss (default: rmse, error or auc).",
        JUDGING,
        "METRIC",
        range="a metric",
    )
    cv: int | str = _option(
        10,
        "Number of folds, holdout, loo (leave one out) or 5x2.",
        JUDGING,
        "K",
        range='from 2 on, "holdout", "loo", "5x2"',
        parse=folds_of,
    )
    repeats: int = _option(1, "Repeats of folds or holdouts, each with new ones.", JUDGING, "R", least=1)
    validation: float | None = _option(
        None, "Share of all rows that --cv holdout validates on (default: 0.2).", JUDGING, "SHARE", range="(0, 1)"
    )
    refit: bool = _option(
        True,
        "Keep the model fitted without the validation rows of a holdout.",
        JUDGING,
        range="True, False",
        flag="--no-refit",
    )
    cost: Any = _option(
        None,
        'What errors in two classes cost, such as "missed=10 false=1": chooses the decision threshold.',
        JUDGING,
        "COSTS",
        range='{"missed": 10, "false": 1}',
        parse=str,
    )
    rate: Any = _option(
        None,
        'A rate that the decision threshold must keep, such as "sensitivity=0.9".',
        JUDGING,
        "RATE",
        range='("sensitivity", 0.9); also "specificity", "precision", "positive"',
        parse=str,
    )
    group: str | None = _option(
        None, "Never split rows with the same value in this column.", JUDGING, "COL", range="a column"
    )
    time: str | None = _option(
        None, "Train on earlier rows, test on later ones, by this column.", JUDGING, "COL", range="a column"
    )
    known_groups: bool = _option(
        False,
        "With --group and --time: also predict later rows of groups seen before.",
        JUDGING,
        range="True, False",
    )
    select: str = _option(
        "best", "best, or readable: the best readable learner if it is about as good.", JUDGING, "RULE", choices=RULES
    )
    level: float = _option(0.95, "Confidence level of intervals and verdicts.", JUDGING, "LEVEL", range="(0, 1)")
    correction: str = _option(
        "max-t", f"Correction for many pairs: {', '.join(CORRECTIONS)}.", JUDGING, "NAME", choices=CORRECTIONS
    )
    test_size: float | str = _option(
        "auto",
        "Fraction of rows in the test set, none (outer folds give the figure instead), or auto.",
        TEST,
        "SHARE",
        range='"auto", "none", (0, 1)',
        parse=share,
    )
    margin: float | None = _option(
        None,
        "Precision that --test-size auto aims at (default: 0.05 for rates, 0.1 of the figure in regression).",
        TEST,
        "M",
        range="(0, 1)",
    )
    test: Any = _option(None, "A separate file with the test rows.", TEST, "FILE", range="a file or a data frame")
    looks: int = _option(1, "Planned looks at the test set; more looks mean wider intervals.", TEST, "K", least=1)
    open_test: bool = _option(True, "Leave the test set sealed.", TEST, range="True, False", flag="--no-open")
    reason: str | None = _option(
        None, "Reason for a look beyond the plan; recorded in the ledger.", TEST, "TEXT", range="text"
    )
    despite: Sequence[str] = _option(
        (),
        "Open the test set despite this serious check; recorded in the ledger.",
        TEST,
        "CODE",
        range="codes of checks",
        many=True,
    )
    reseal: str | None = _option(
        None, "Reason for sealing these rows anew; recorded in the ledger.", TEST, "WHY", range="text"
    )
    seed: int = _option(0, "Random seed of folds and learners; the seal does not depend on it.", OUTPUT, "N", least=0)
    n_jobs: int | None = _option(
        None,
        "Number of workers; results do not depend on it (default: all cores).",
        OUTPUT,
        "N",
        range="a non-zero whole number",
    )
    minutes: float | None = _option(
        None,
        "Time limit: the strongest learners first; the test set stays sealed if any is left unfinished.",
        OUTPUT,
        "M",
        range="above 0",
    )
    out: str | Path | None = _option(
        None, "Directory for the report and the model (default: out/ID).", OUTPUT, "DIR", range="a directory"
    )
    unit: str | None = _option(
        None, 'Unit of the target in the report, such as "$" or kg.', OUTPUT, "UNIT", range="text"
    )
    by: Sequence[str] = _option(
        (), "Report the error in the subgroups of this column.", OUTPUT, "COL", range="columns", many=True
    )
    trust: Sequence[str] = _option(
        (),
        "Allow this class of another package (module.Class) in the model file.",
        OUTPUT,
        "CLASS",
        range="classes",
        many=True,
    )
    background: int = _option(
        0,
        "Training rows to put into the model file, so that assay predict --explain works on other machines too.",
        OUTPUT,
        "N",
        least=0,
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            _refuse_type(one, getattr(self, one.name))
        object.__setattr__(self, "cost", None if self.cost is None else cost_of(self.cost))
        object.__setattr__(self, "rate", None if self.rate is None else rate_of(self.rate))
        if self.cost is not None and self.rate is not None:
            raise ParameterError("both cost and rate are given", remedy="pass one of them")
        for name, about in declared().items():
            value = getattr(self, name)
            if about.choices and value not in about.choices:
                remedy = f"choose one of {', '.join(about.choices)}"
                raise ParameterError(f"unknown {name} {value!r}", remedy=remedy)
            if about.least is not None and not _is_whole(value, about.least):
                remedy = f"pass a whole number of at least {about.least}"
                raise ParameterError(f"{name} = {value!r} is out of range", remedy=remedy)
        if self.cv not in PROTOCOLS and not _is_whole(self.cv, 2):
            remedy = f"pass a whole number of at least 2, or one of {', '.join(PROTOCOLS)}"
            raise ParameterError(f"cv = {self.cv!r} is out of range", remedy=remedy)
        shares = [name for name in ("margin", "validation") if getattr(self, name) is not None]
        for name in ("level", *shares):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
                raise ParameterError(f"{name} = {value!r} is out of range", remedy="pass a number between 0 and 1")
        if self.minutes is not None and (
            isinstance(self.minutes, bool) or not isinstance(self.minutes, int | float) or not self.minutes > 0
        ):
            raise ParameterError(f"minutes = {self.minutes!r} is out of range", remedy="pass a number above 0")
        if self.n_jobs is not None and (not _is_whole(abs(self.n_jobs) if _is_int(self.n_jobs) else self.n_jobs, 1)):
            raise ParameterError(
                f"n_jobs = {self.n_jobs!r} is out of range", remedy="pass None or a non-zero whole number"
            )


def _refuse_type(one: Field[Any], value: Any) -> None:
    """Refuse text where a list, a mapping or a truth value belongs: "false" would be true, "zip" three columns."""
    maps = one.metadata["declared"].parse in (kinds_of, texts_of)
    if isinstance(one.default, bool):
        fits, remedy = isinstance(value, bool), "pass True or False (true or false in a file)"
    elif maps:
        texts = list(value.values()) if isinstance(value, Mapping) else []
        fits = value is None or (isinstance(value, Mapping) and (one.name == "kinds" or all(map(_is_list, texts))))
        remedy = 'write it as {"zip": "category"}' if one.name == "kinds" else 'write it as {"size": ["NA", "-"]}'
    elif one.metadata["declared"].many:
        fits = _is_list(value) and all(isinstance(item, str) for item in value)
        remedy = f"write it as [{value!r}]" if isinstance(value, str) else 'write it as ["text", "text"]'
    elif one.name == "out":
        fits, remedy = value is None or isinstance(value, str | Path), "pass the path of a directory"
    else:
        fits = one.name not in TEXTS or value is None or isinstance(value, str)
        remedy = "pass text"
    if not fits:
        raise ParameterError(f"{one.name} = {value!r} is not valid", remedy=remedy)


def _is_list(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _is_int(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_whole(value: Any, least: int) -> bool:
    return _is_int(value) and value >= least


def declared() -> dict[str, Declared]:
    """What is declared of each option, by its name."""
    return {one.name: one.metadata["declared"] for one in fields(Options)}


def _range(one: Field[Any]) -> str:
    about: Declared = one.metadata["declared"]
    if about.choices:
        return ", ".join(repr(choice).replace("'", '"') for choice in about.choices)
    return f"from {about.least} on" if about.least is not None else about.range


def with_options(function: Taker) -> Taker:
    """Give a function or a class that takes `**options` the signature and the docstring of the declared options.

    The options stand in place of `**options`, and their table in place of `OPTIONS` in the docstring.
    """
    documented: Any = function
    target: Any = documented.__init__ if inspect.isclass(documented) else documented
    taken = [p for p in inspect.signature(target).parameters.values() if p.kind is not p.VAR_KEYWORD]
    names = {p.name for p in taken}
    more = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields(Options)
        if one.name not in names
    ]
    target.__signature__ = inspect.Signature([*taken, *more])
    if documented.__doc__:
        documented.__doc__ = re.sub(r"( *)\| *OPTIONS *\|.*\n", lambda line: _rows(line[1]), documented.__doc__)
    return function


def _rows(indent: str) -> str:
    """The options as rows of a table with the columns parameter, default, range and meaning."""
    return "".join(
        f"{indent}| {one.name} | {one.default!r} | {_range(one)} | {one.metadata['declared'].help.rstrip('.')} |\n"
        for one in fields(Options)
    )


# Configuration files.


def read_config(path: str | Path) -> dict[str, Any]:
    """The keys of a configuration file: `table`, `target` and options, as they are written in TOML.

    | parameter | range  | meaning                                     |
    |-----------|--------|---------------------------------------------|
    | path      | a file | such as the `assay.toml` that a run leaves  |
    """
    try:
        found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        message = f"cannot read {path}: {(error.strerror or str(error)).lower()}"
        raise DataError(message, remedy="check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not valid TOML: {error}", remedy="correct that line") from error
    known = {"table", "target", *declared()}
    for key in found:
        if key not in known:
            near = get_close_matches(key, sorted(known), 1)
            remedy = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(sorted(known))}"
            raise ParameterError(f"unknown option {key!r} in {path}", remedy=remedy)
    for key in ("table", "target", "test", "out"):
        if not isinstance(found.get(key, ""), str):
            message = f"{key} = {found[key]!r} in {path} is not text"
            raise ParameterError(message, remedy=f'write it as {key} = "..."')
    return found


def config_text(table: str | None, target: str, options: Options) -> str:
    """A configuration file that repeats a run: what differs from the defaults, but for a new seal, which stays.

    >>> print(config_text("houses.csv", "price", Options(cv=5, kinds={"zip": "category"})))
    # assay run --config assay.toml
    table = "houses.csv"
    target = "price"
    kinds = {"zip" = "category"}
    cv = 5
    <BLANKLINE>
    """
    chosen: dict[str, Any] = {} if table is None else {"table": table}
    chosen["target"] = target
    usual = asdict(Options())
    for one in fields(Options):
        value = getattr(options, one.name)
        if one.name not in ("test", "reseal") and value != usual[one.name]:
            chosen[one.name] = value
    if isinstance(options.test, str | Path):
        chosen["test"] = str(options.test)
    lines = [f"{key} = {_toml(value)}" for key, value in chosen.items()]
    return "\n".join(["# assay run --config assay.toml", *lines, ""])


def words_of(found: Mapping[str, Any]) -> dict[str, list[str]]:
    """The options of a configuration file as they are typed: flag -> words.

    >>> words_of({"kinds": {"zip": "category"}, "drop": ["fee", "tax"], "open_test": False})
    {'--kind': ['--kind', 'zip=category'], '--drop': ['--drop', 'fee', '--drop', 'tax'], '--no-open': ['--no-open']}
    >>> words_of({"rate": ["precision", 0.9], "missing": {"*": ["-"], "size": []}})
    {'--missing': ['--missing', '-', '--missing', 'size='], '--rate': ['--rate', 'precision=0.9']}
    """
    words = {}
    for name, about in declared().items():
        if name not in found:
            continue
        value, flag = found[name], about.flag or f"--{name.replace('_', '-')}"
        if isinstance(value, bool):
            words[flag] = [flag]
            continue
        if name == "missing":
            typed = [
                ("" if column == "*" else f"{column}=") + ",".join(map(str, texts)) for column, texts in value.items()
            ]
        elif name == "rate" and not isinstance(value, str | Mapping):
            typed = ["{}={}".format(*value)]
        elif isinstance(value, Mapping):
            pairs = [f"{key}={one}" for key, one in value.items()]
            typed = pairs if about.many else [" ".join(pairs)]
        else:
            typed = [str(one) for one in value] if about.many else [str(value)]
        words[flag] = [word for one in typed for word in (flag, one)]
    return words


def _toml(value: Any) -> str:
    """A value in TOML; its text is quoted as JSON quotes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value if isinstance(value, bool | int | float) else str(value), ensure_ascii=False)
