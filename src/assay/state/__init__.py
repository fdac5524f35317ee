"""Fitted objects as JSON and plain arrays, and back: each class declares its state once, and one check reads it.

A class that belongs into a model file derives from `Stateful` (all estimators and results do) and says what its fitted
attributes are:

    state = {"coef_": floats("k", "p"), "classes_": classes("k"), "nodes_": part(Nodes, k="k"), "n_iter_": integer(1)}

The letters are sizes that must agree among all arrays of an object and, where a part names them, with those of its
parts. What a table cannot say (every child behind its parent) is written in `_check_state`; what follows from the rest
(an index over the rows) is made again in `_restore`. Fields of a dataclass that are not in its table are checked by
their annotation. Parameters are stored beside the state and checked by the class's own `constraints`.

`to_state` gives a tree of JSON values and a list of arrays; `from_state` builds the object from them. Only registered
classes are built, by a name made of package and class ("trees.RandomForestRegressor"), so that a module can be renamed;
`state_name` keeps the name of a class that moves. Nothing is called that is not declared, and an object is handed out
only after everything in it has been checked: compiled code follows indices without a look.
"""

from assay.state._declarations import (
    Specs,
    StateError,
    Stateful,
    anything,
    array,
    bools,
    check_state,
    classes,
    contrasts,
    declared,
    facts,
    floats,
    ints,
    labels,
    left_out,
    names,
    need,
    optional,
    part,
    register,
    several,
    size,
    values,
)
from assay.state._tree import from_state, to_state

__all__ = [
    "Specs",
    "StateError",
    "Stateful",
    "anything",
    "array",
    "bools",
    "check_state",
    "classes",
    "contrasts",
    "declared",
    "facts",
    "floats",
    "from_state",
    "ints",
    "labels",
    "left_out",
    "names",
    "need",
    "optional",
    "part",
    "register",
    "several",
    "size",
    "to_state",
    "values",
]
