"""Command-line flags declared as fields of frozen dataclasses.

An option is declared once, where its value is kept:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options:
        input_file: str = flags.Group.FILES.required("Text files.")
        batch_size: int = flags.Group.SPEED.positive(32, "Examples in a batch.")

`define` defines absl flags for the fields, in their order; `read` fills the
dataclass from them. The type of a field determines the type of its flag: `str`,
`int`, `float`, `bool`, `Path`, `tuple[str, ...]` for a comma-separated list,
and `tuple[int, ...]` or `tuple[float, ...]` for one of numbers.
"""

import contextlib
import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, Unpack

from absl import flags

from bert.files import paths

if typing.TYPE_CHECKING:
    from _typeshed import DataclassInstance

# A path, or comma-separated paths and patterns; see `paths.from_flag`.
Path: TypeAlias = Annotated[str, "path"]

T = typing.TypeVar("T", bound="DataclassInstance")
_Value = typing.TypeVar("_Value")
_DEFINE: Mapping[object, Callable[..., object]] = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
    Path: flags.DEFINE_string,
}


class _NumberDetails(typing.TypedDict, total=False):
    """The attributes of the `Declaration` of a number with a lower bound."""

    choices: Sequence[str]
    upper_bound: float | None
    parser: flags.ArgumentParser | None
    changes_result: bool
    of_model: bool


class _Details(_NumberDetails, total=False):
    """The attributes of a `Declaration` besides its help and its heading."""

    lower_bound: float | None


# Methods that declare a field return `Any`, because a field is annotated with
# the type of its value, as with `dataclasses.field`.
@dataclasses.dataclass(frozen=True)
class Heading:
    """A heading of --help, which declares the flags under it.

    Attributes:
        title: shown above the flags.
        place: headings are shown in this order; by default before "Training".
    """

    title: str
    place: int = 5

    def flag(
        self,
        default: object,
        help: str,  # noqa: A002
        **details: Unpack[_Details],
    ) -> Any:
        """Declares a field of a dataclass as a flag under this heading.

        Args:
            default: the value if the flag is not given.
            help: see `Declaration`.
            **details: the other attributes of `Declaration`.
        """
        declaration = Declaration(help=help, heading=self, **details)
        return dataclasses.field(
            default=default, metadata={"flag": declaration}
        )

    def required(self, help: str, **details: Unpack[_Details]) -> Any:  # noqa: A002
        """Declares a field as a required flag."""
        return self.flag(dataclasses.MISSING, help, **details)

    def optional(self, help: str, **details: Unpack[_Details]) -> Any:  # noqa: A002
        """Declares a field as a flag whose value is None if not given."""
        return self.flag(None, help, **details)

    def boolean(self, help: str, **details: Unpack[_Details]) -> Any:  # noqa: A002
        """Declares a field as a flag that is False if not given."""
        return self.flag(False, help, **details)

    def positive(
        self,
        default: int,
        help: str,  # noqa: A002
        **details: Unpack[_NumberDetails],
    ) -> Any:
        """Declares a field as a flag that is at least 1."""
        return self.flag(default, help, lower_bound=1, **details)

    def non_negative(
        self,
        default: float,
        help: str,  # noqa: A002
        **details: Unpack[_NumberDetails],
    ) -> Any:
        """Declares a field as a flag that is at least 0."""
        return self.flag(default, help, lower_bound=type(default)(0), **details)


class Group:
    """The headings that programs share; `Heading(TITLE)` makes others."""

    ACTIONS = Heading("Actions", 1)
    FILES = Heading("Input and output", 2)
    MODEL = Heading("Model", 3)
    TEXT = Heading("Text processing", 4)
    TRAINING = Heading("Training", 6)
    TRIALS = Heading("Several runs", 7)
    EVALUATION = Heading("Evaluation and prediction", 8)
    CHECKPOINTS = Heading("Checkpoints and reports", 9)
    SPEED = Heading("Speed and memory", 10)
    DEVICES = Heading("Devices", 11)
    TPU = Heading("TPU, as in the original", 12)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """The flag of a field; the field has its name, type and default.

    Attributes:
        help, heading: of the flag in --help.
        choices: the values that are allowed; any value if empty.
        lower_bound, upper_bound: of a number.
        parser: instead of that of the type.
        changes_result: whether the weights after training depend on the value.
            A run that resumes with another value says so.
        of_model: whether the value belongs to the model. A run that does not
            train takes it from the model's folder if it is not given.
    """

    help: str
    heading: Heading
    choices: Sequence[str] = ()
    lower_bound: float | None = None
    upper_bound: float | None = None
    parser: flags.ArgumentParser | None = None
    changes_result: bool = False
    of_model: bool = False


def needed(value: _Value | None, name: str) -> _Value:
    """Returns the value of a flag that other flags require.

    Raises:
        ValueError: the value is None.
    """
    if value is None:
        raise ValueError(f"--{name} must be given.")
    return value


def given(values: flags.FlagValues = flags.FLAGS) -> frozenset[str]:
    """Returns the names of the flags on the command line."""
    return frozenset(name for name in values if values[name].present)


def changing_result(options: "DataclassInstance") -> dict[str, object]:
    """Returns the values of the flags that change the trained weights."""
    return _marked(options, lambda flag: flag.changes_result)


def redeclare(options: type, name: str, default: object = None) -> Any:
    """Declares a flag of another dataclass again, with another default.

        batch_size: int = flags.redeclare(Base, "batch_size", default=16)

    Args:
        options: the other dataclass.
        name: the name of its field.
        default: the new default; None keeps the old one.
    """
    (field,) = (f for f in dataclasses.fields(options) if f.name == name)
    return dataclasses.field(
        default=field.default if default is None else default,
        metadata=field.metadata,
    )


def define(options: type, values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags that a dataclass declares.

    Raises:
        TypeError: no flag supports the type of a field.
    """
    for field in dataclasses.fields(options):
        _define(field, _kind(options, field), values)


def _define(
    field: dataclasses.Field, kind: object, values: flags.FlagValues
) -> None:
    declaration = field.metadata["flag"]
    default: Any = None if is_required(field) else field.default
    details: dict[str, object] = {}
    if declaration.parser:
        define: Callable[..., object] = functools.partial(
            flags.DEFINE, declaration.parser
        )
        details = {"serializer": flags.ArgumentSerializer()}
    elif declaration.choices and kind is str:
        define = flags.DEFINE_enum
        details = {"enum_values": list(declaration.choices)}
    elif typing.get_origin(kind) is tuple:
        define = flags.DEFINE_list
        default = None if default is None else [*map(str, default)]
    elif kind in _DEFINE:
        define = _DEFINE[kind]
    else:
        raise TypeError(f"{field.name}: no flag supports the type {kind}.")
    if kind in (int, float):
        details = {
            "lower_bound": declaration.lower_bound,
            "upper_bound": declaration.upper_bound,
        }
    define(
        name=field.name,
        default=default,
        help=declaration.help,
        flag_values=values,
        **details,
    )


def _kind(options: type, field: dataclasses.Field) -> Any:
    """Returns the type of a field, or the X of `X | None`."""
    kind = typing.get_type_hints(options, include_extras=True)[field.name]
    if typing.get_origin(kind) not in (types.UnionType, typing.Union):
        return kind
    (first, *others) = {*typing.get_args(kind)} - {types.NoneType}
    return kind if others else first


def of_model(options: "DataclassInstance") -> dict[str, object]:
    """Returns the values of the flags that are declared with `of_model`."""
    return _marked(options, lambda flag: flag.of_model)


def _marked(
    options: "DataclassInstance", has_mark: Callable[[Declaration], bool]
) -> dict[str, object]:
    """Returns the values of the flags whose declarations have a mark."""
    return {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if has_mark(field.metadata["flag"])
    }


def check_value(options: type, name: str, value: object, source: str) -> None:
    """Checks a value of a file as the command line checks that of its flag.

    Args:
        options: the dataclass that declares the flag.
        name: of the flag.
        value: of JSON; a list may be a tuple.
        source: the file, for the message.

    Raises:
        ValueError: its type, its bounds or its choices are not the flag's.
    """
    (field,) = (f for f in dataclasses.fields(options) if f.name == name)
    kind, declaration = _kind(options, field), field.metadata["flag"]
    kinds = typing.get_args(kind) if isinstance(kind, types.UnionType) else ()
    if any(_is_of(value, kind) for kind in kinds or (kind,)):
        with contextlib.suppress(ValueError):
            if declaration.parser:
                declaration.parser.parse(value)
                return
            if _is_allowed(value, declaration):
                return
    choices = ", ".join(declaration.choices)
    raise ValueError(
        f"{source}: {name!r} must be a value of --{name}"
        f"{choices and f', one of {choices}'}; got {value!r:.60}."
    )


def _is_of(value: object, kind: Any) -> bool:
    if typing.get_origin(kind) is tuple:
        return isinstance(value, list | tuple) and all(
            _is_of(part, typing.get_args(kind)[0]) for part in value
        )
    if isinstance(value, bool):  # It is an int too.
        return kind is bool
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, str if kind == Path else kind)


def _is_allowed(value: Any, declaration: Declaration) -> bool:
    """Returns whether a value is among the choices and within the bounds."""
    if declaration.choices:
        return value in declaration.choices
    lowest, highest = declaration.lower_bound, declaration.upper_bound
    return (lowest is None or value >= lowest) and (
        highest is None or value <= highest
    )


def is_required(field: dataclasses.Field) -> bool:
    """Returns whether the flag of a field is required."""
    return field.default is dataclasses.MISSING


def read(options: type[T], values: flags.FlagValues = flags.FLAGS) -> T:
    """Fills a dataclass from the flags of its fields.

    If flags change the defaults of others, the dataclass has a class method
    `presets` that takes the values by name and returns the changed defaults.
    Flags on the command line keep their values.

    Raises:
        ValueError: required flags are missing, or empty because of an unset
            shell variable; a part of a list is no number; or a path has a
            name that only a shell replaces.
    """
    chosen: dict[str, Any] = {}
    missing = []
    for field in dataclasses.fields(options):
        value = chosen[field.name] = values[field.name].value
        if isinstance(value, list):
            part = typing.get_args(_kind(options, field))[0]
            try:
                chosen[field.name] = tuple(map(part, value))
            except ValueError as error:
                given = ",".join(value)
                raise ValueError(f"--{field.name}={given}: {error}.") from None
        if value and _kind(options, field) == Path:
            try:
                chosen[field.name] = paths.from_flag(value)
            except ValueError as error:
                raise ValueError(f"--{field.name}={value}: {error}.") from None
        if is_required(field) and value in (None, ""):
            missing.append(f"--{field.name}")
    if missing:
        raise ValueError(f"{', '.join(missing)} must be given.")
    presets = getattr(options, "presets", None)
    changed: Mapping[str, object] = presets(chosen) if presets else {}
    for name, value in changed.items():
        if not values[name].present:
            chosen[name] = value
    return options(**chosen)


def narrow(options: type[T], wider: object, **replaced: object) -> T:
    """Fills a dataclass from the attributes of the same names of another.

    A field without such an attribute keeps its default.
    """
    chosen = {
        field.name: getattr(wider, field.name)
        for field in dataclasses.fields(options)
        if field.name not in replaced
        and (is_required(field) or hasattr(wider, field.name))
    }
    return options(**chosen, **replaced)
