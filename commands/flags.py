"""Command-line flags declared as fields of frozen dataclasses.

An option is declared once, where its value is kept:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options:
        input_file: str = flags.Group.FILES.required("Text files.")
        batch_size: int = flags.Group.SPEED.count(32, "Examples in a batch.")

`define` defines absl flags for the fields, in their order; `read` fills the
dataclass from them. The type of a field determines the type of its flag: `str`,
`int`, `float`, `bool`, `tuple[str, ...]` for a comma-separated list, and
`tuple[int, ...]` or `tuple[float, ...]` for one of different positive numbers.
"""

import dataclasses
import enum
import functools
import math
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from files import lines, messages

if typing.TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = typing.TypeVar("T", bound="DataclassInstance")
_Value = typing.TypeVar("_Value")
_DEFINE: Mapping[Any, Callable[..., Any]] = {
    bool: flags.DEFINE_boolean,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    str: flags.DEFINE_string,
}
# Error messages of absl.
_MISSING = re.compile(r"flag --(\w+)=None: .* must have a value other than")
_VALUE_ERRORS = (
    (r"flag (--\w+)=(.*): could not convert string to float: .*", "a number"),
    (r"flag (--\w+)=(.*): invalid literal for int\(\) .*", "a whole number"),
    (r"flag (--\w+)=(.*): \('Non-boolean argument .*", "true or false"),
    (r"flag (--\w+)=(.*): -?[\d.]+ is not (.*)", None),
    (r"flag (--\w+)=(.*): value should be (one of) <(.*)>", None),
)


class Group(enum.Enum):
    """Headings of --help, in the order in which it shows them."""

    ACTIONS = "Actions"
    FILES = "Input and output"
    MODEL = "Model"
    TEXT = "Text processing"
    RAW_TEXT = "Raw text"
    OWN_DATA = "Your own data (--task_name=custom)"
    XNLI = "XNLI"
    COLUMNS = "Columns of the files"
    PAIRS = "Masked pairs"
    VOCABULARY = "Vocabulary"
    ANSWERS = "Answers"
    VECTORS = "Vectors"
    MASKS = "Masked words"
    TRAINING = "Training"
    TRIALS = "Several runs"
    EVALUATION = "Evaluation and prediction"
    CHECKPOINTS = "Checkpoints and reports"
    SPEED = "Speed and memory"
    MEASUREMENT = "Measurement"
    DEVICES = "Devices"
    TPU = "TPU, as in the release"
    DISPLAY = "Display"

    def flag(self, default: Any, help: str, **details: Any) -> Any:  # noqa: A002
        """Declares a field of a dataclass as a flag under this heading.

        Args:
            default: the value if the flag is not given.
            help: see `Declaration`.
            **details: the other attributes of `Declaration`.
        """
        declaration = Declaration(help=help, group=self, **details)
        return dataclasses.field(
            default=default, metadata={"flag": declaration}
        )

    def required(self, help: str, **details: Any) -> Any:  # noqa: A002
        """Declares a field as a required flag."""
        return self.flag(dataclasses.MISSING, help, **details)

    def optional(self, help: str, **details: Any) -> Any:  # noqa: A002
        """Declares a field as a flag whose value is None if not given."""
        return self.flag(None, help, **details)

    def switch(self, help: str, **details: Any) -> Any:  # noqa: A002
        """Declares a field as a flag that is False if not given."""
        return self.flag(False, help, **details)

    def count(self, default: int, help: str) -> Any:  # noqa: A002
        """Declares a field as a flag that is at least 1."""
        return self.flag(default, help, lower_bound=1)

    def whole(self, default: int, help: str) -> Any:  # noqa: A002
        """Declares a field as a flag that is at least 0."""
        return self.flag(default, help, lower_bound=0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """The flag of a field; the field has its name, type and default.

    Attributes:
        help: the description for --help.
        group: its heading in --help.
        choices: the allowed values; any if empty.
        lower_bound: the least allowed number.
        upper_bound: the greatest allowed number.
        parser: replaces the parser of the field's type.
    """

    help: str
    group: Group
    choices: Sequence[str] = ()
    lower_bound: float | None = None
    upper_bound: float | None = None
    parser: flags.ArgumentParser | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerOptions:
    """The flags of all programs that tokenize text for a model."""

    vocab_file: str = Group.TEXT.required(
        "Vocabulary of the model, one word piece per line."
    )
    do_lower_case: bool = Group.TEXT.flag(
        True, "Lower-case the text and strip accents; False for cased models."
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The flags of tools that use the model of a run."""

    use_best_checkpoint: bool = Group.MODEL.switch(
        "Use the checkpoint in best/ instead of the latest."
    )
    encoder_checkpoint: str | None = Group.MODEL.optional(
        "Encoder of a tagger trained with --features, if it was moved."
    )


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


def redeclare(options: type, name: str, default: Any = None) -> Any:
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
    kinds = typing.get_type_hints(options)
    for field in dataclasses.fields(options):
        declaration = field.metadata["flag"]
        _define(field, _without_none(kinds[field.name]), values)
        values.register_key_flag_for_module(
            declaration.group.value, values[field.name]
        )


def _define(
    field: dataclasses.Field, kind: Any, values: flags.FlagValues
) -> None:
    declaration = field.metadata["flag"]
    is_required = field.default is dataclasses.MISSING
    default: Any = None if is_required else field.default
    define = _DEFINE.get(kind)
    details: dict[str, Any] = {}
    if declaration.parser:
        define = functools.partial(flags.DEFINE, declaration.parser)
        details = {"serializer": flags.ArgumentSerializer()}
    elif declaration.choices and kind is str:
        define = flags.DEFINE_enum
        details = {"enum_values": list(declaration.choices)}
    elif kind == tuple[str, ...]:
        define = flags.DEFINE_list
        default = None if default is None else list(default)
    elif typing.get_origin(kind) is tuple:
        parser = _NumbersParser(typing.get_args(kind)[0])
        define = functools.partial(flags.DEFINE, parser)
        details = {"serializer": flags.ListSerializer(",")}
    elif kind in (int, float):
        details = {
            "lower_bound": declaration.lower_bound,
            "upper_bound": declaration.upper_bound,
        }
    if define is None:
        raise TypeError(f"{field.name}: no flag supports the type {kind}.")
    define(
        name=field.name,
        default=default,
        help=declaration.help,
        flag_values=values,
        required=is_required,
        **details,
    )


class _NumbersParser(flags.ArgumentParser):
    """A parser of positive numbers of a type, separated by commas."""

    def __init__(self, kind: type[int] | type[float]):
        super().__init__()
        self._kind = kind

    def parse(self, argument: str | tuple[float, ...]) -> tuple[float, ...]:
        if isinstance(argument, tuple):
            return argument
        try:
            numbers = tuple(self._kind(part) for part in argument.split(","))
        except ValueError:
            numbers = (0,)
        whole = "whole " if self._kind is int else ""
        if len(set(numbers)) != len(numbers) or not all(n > 0 for n in numbers):
            raise ValueError(
                f"must be different positive {whole}numbers, separated "
                "by commas"
            )
        return numbers

    def flag_type(self) -> str:
        return f"comma separated list of {self._kind.__name__}s"


def _without_none(kind: Any) -> Any:
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (kind, *others) = (
            each for each in typing.get_args(kind) if each is not type(None)
        )
        return kind if not others else typing.Union[kind, *others]
    return kind


def read(options: type[T], values: flags.FlagValues = flags.FLAGS) -> T:
    """Fills a dataclass from the flags of its fields.

    If flags change the defaults of others, the dataclass has a class method
    `presets` that takes the values by name and returns the changed defaults.
    Flags on the command line keep their values.
    """
    chosen: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        value = values[field.name].value
        chosen[field.name] = tuple(value) if isinstance(value, list) else value
    presets = getattr(options, "presets", None)
    changed: Mapping[str, Any] = presets(chosen) if presets else {}
    for name, value in changed.items():
        if not values[name].present:
            chosen[name] = value
    return options(**chosen)


def narrow(options: type[T], wider: Any, **replaced: Any) -> T:
    """Fills a dataclass from the attributes of the same names of another.

    A field without such an attribute keeps its default.
    """
    chosen = {
        field.name: getattr(wider, field.name)
        for field in dataclasses.fields(options)
        if field.name not in replaced
        and (field.default is dataclasses.MISSING or hasattr(wider, field.name))
    }
    return options(**chosen, **replaced)


def changed(options: "DataclassInstance", group: Group) -> list[str]:
    """Lists the flags under a heading whose values are not their defaults."""
    return [
        f"--{field.name}"
        for field in dataclasses.fields(options)
        if field.metadata["flag"].group is group
        and getattr(options, field.name) != field.default
    ]


def of(values: flags.FlagValues, group: Group) -> list[flags.Flag]:
    """Lists the flags under a heading, in the order of their definition."""
    return values.get_key_flags_for_module(group.value)


def is_required(flag: flags.Flag) -> bool:
    """Returns whether a flag is required."""
    return any(
        list(validator.get_flags_names()) == [flag.name]
        and not validator.checker(None)
        for validator in flag.validators
    )


def check(values: flags.FlagValues) -> None:
    """Checks for invalid values that absl accepts.

    Raises:
        flags.IllegalFlagValueError: a required flag is empty, for instance
            because of an unset shell variable; a number is NaN; or a text,
            such as a path, is not UTF-8.
    """
    for name in values:
        flag = values[name]
        if isinstance(flag.value, str):
            try:
                lines.check_text(flag.value, f"--{name}")
            except ValueError as error:
                raise flags.IllegalFlagValueError(str(error)) from error
        if flag.value == "" and is_required(flag):
            raise flags.IllegalFlagValueError(
                f"--{name} must not be empty. Is its value a shell variable "
                "that is not set?"
            )
        if isinstance(flag.value, float) and math.isnan(flag.value):
            raise flags.IllegalFlagValueError(
                f"--{name} must be a number; got {flag.value}."
            )


def error_message(error: flags.Error) -> str:
    """Returns the message of an error of absl's flags on one line."""
    if isinstance(error, flags.UnrecognizedFlagError):
        meant = re.search(r"Did you mean: ([^\s,]+)", str(error))
        return f"there is no flag --{error.flagname}" + (
            f"; did you mean --{meant[1]}?" if meant else "."
        )
    lines = str(error).removeprefix("ERROR:: ").split("\n")
    missing = [f"--{m[1]}" for line in lines if (m := _MISSING.match(line))]
    others = [
        _value_message(line) for line in lines if not _MISSING.match(line)
    ]
    if missing:
        others.insert(0, f"{', '.join(missing)} must be given.")
    return " ".join(
        line.rstrip() if line.endswith((".", "?")) else f"{line.rstrip()}."
        for line in others
    )


def _value_message(line: str) -> str:
    """Rewrites absl's message on the value of a flag."""
    for pattern, kind in _VALUE_ERRORS:
        if match := re.fullmatch(pattern, line):
            name, value, *rest = match.groups()
            must_be = kind or " ".join(rest).replace("|", ", ")
            near = messages.meant(value, rest[-1].split("|")) if rest else ""
            return f"{name} must be {must_be}; got {value}.{near}"
    # A check of several flags begins with their values.
    return re.sub(r"^flags \w+=.*?: (?=[A-Z-])", "", line)
