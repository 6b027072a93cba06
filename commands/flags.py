"""Command-line flags declared as fields of frozen dataclasses.

An option is declared once, where its value is kept:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Options:
        input_file: str = flags.Group.FILES.required("Text files.")
        batch_size: int = flags.Group.SPEED.flag(
            32, "Examples in a batch.", lower_bound=1
        )

`define` makes absl's flags of the fields, in their order; `read` fills the
dataclass from them. The type of a field decides the kind of its flag: `str`,
`int`, `float`, `bool`, and `tuple[str, ...]` for a comma-separated list.
"""

import dataclasses
import enum
import math
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from absl import flags

from files import messages

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
# Messages of absl's.
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

    ACTIONS = "What to do"
    FILES = "What is read and written"
    MODEL = "Model"
    TEXT = "How text is read"
    RAW_TEXT = "Raw text"
    OWN_DATA = "Data of your own (--task_name=custom)"
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
    DISPLAY = "What is shown"

    def flag(self, default: Any, help: str, **details: Any) -> Any:  # noqa: A002
        """Declares a field of a dataclass as a flag under this heading.

        Args:
            default: the value where the flag is not given.
            help: see `Declaration`.
            **details: the other attributes of `Declaration`.
        """
        declaration = Declaration(help=help, group=self, **details)
        return dataclasses.field(
            default=default, metadata={"flag": declaration}
        )

    def required(self, help: str, **details: Any) -> Any:  # noqa: A002
        """Declares a field as a flag without which its program does not run."""
        return self.flag(dataclasses.MISSING, help, **details)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declaration:
    """The flag of a field, beside its name, type and default.

    Attributes:
        help: what it does, for --help.
        group: the heading it stands under.
        choices: the values it takes; any if empty.
        lower_bound: the least number it takes.
        upper_bound: the greatest.
        parser: reads the value, in place of the parser of the field's type.
        serializer: writes what `parser` reads.
    """

    help: str
    group: Group
    choices: Sequence[str] = ()
    lower_bound: float | None = None
    upper_bound: float | None = None
    parser: flags.ArgumentParser | None = None
    serializer: flags.ArgumentSerializer | None = None


def given(value: _Value | None, name: str) -> _Value:
    """Returns the value of a flag that others make necessary.

    Raises:
        ValueError: it is not given.
    """
    if value is None:
        raise ValueError(f"--{name} must be given.")
    return value


def redeclare(options: type, name: str, default: Any = None) -> Any:
    """Declares a flag of another dataclass again, for a program of its own.

        batch_size: int = flags.redeclare(Base, "batch_size", default=16)

    Args:
        options: the other dataclass.
        name: of its field.
        default: in place of the one there.
    """
    (field,) = (f for f in dataclasses.fields(options) if f.name == name)
    return dataclasses.field(
        default=field.default if default is None else default,
        metadata=field.metadata,
    )


def define(options: type, values: flags.FlagValues = flags.FLAGS) -> None:
    """Defines the flags that a dataclass declares.

    Raises:
        TypeError: there is no kind of flag for the type of a field.
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
    common: dict[str, Any] = {"flag_values": values, "required": is_required}
    if declaration.parser:
        flags.DEFINE(
            declaration.parser,
            field.name,
            default,
            declaration.help,
            serializer=declaration.serializer,
            **common,
        )
    elif declaration.choices and kind is str:
        choices = list(declaration.choices)
        flags.DEFINE_enum(
            field.name, default, choices, declaration.help, **common
        )
    elif typing.get_origin(kind) is tuple:
        listed = None if default is None else list(default)
        flags.DEFINE_list(field.name, listed, declaration.help, **common)
    elif kind in _DEFINE:
        if kind in (int, float):
            common["lower_bound"] = declaration.lower_bound
            common["upper_bound"] = declaration.upper_bound
        _DEFINE[kind](field.name, default, declaration.help, **common)
    else:
        raise TypeError(f"{field.name}: no kind of flag holds {kind}.")


def _without_none(kind: Any) -> Any:
    """Returns the type of a value that may be None as well."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        (kind, *others) = (
            each for each in typing.get_args(kind) if each is not type(None)
        )
        return kind if not others else typing.Union[kind, *others]
    return kind


def read(options: type[T], values: flags.FlagValues = flags.FLAGS) -> T:
    """Fills a dataclass from the flags of its fields.

    Where a flag changes the defaults of others, the dataclass has a class
    method `presets` that takes the values by name, and returns the defaults
    that they change; a flag that was given keeps its value.
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

    A field that has a default, and no attribute of its name, keeps it.
    """
    chosen = {
        field.name: getattr(wider, field.name)
        for field in dataclasses.fields(options)
        if field.name not in replaced
        and (field.default is dataclasses.MISSING or hasattr(wider, field.name))
    }
    return options(**chosen, **replaced)


def of(values: flags.FlagValues, group: Group) -> list[flags.Flag]:
    """Lists the flags under a heading, in the order of their definition."""
    return values.get_key_flags_for_module(group.value)


def is_required(flag: flags.Flag) -> bool:
    """Returns whether a program refuses to run without a flag."""
    return any(
        list(validator.get_flags_names()) == [flag.name]
        and not validator.checker(None)
        for validator in flag.validators
    )


def check(values: flags.FlagValues) -> None:
    """Checks values that absl accepts and no program can use.

    Raises:
        flags.IllegalFlagValueError: a required flag is empty, as one written
            with a shell variable that is not set; a number is NaN.
    """
    for name in values:
        flag = values[name]
        if flag.value == "" and is_required(flag):
            raise flags.IllegalFlagValueError(
                f"--{name} must not be empty. Is it a shell's variable that "
                "is not set?"
            )
        if isinstance(flag.value, float) and math.isnan(flag.value):
            raise flags.IllegalFlagValueError(
                f"--{name} must be a number; got {flag.value}."
            )


def error_message(error: flags.Error) -> str:
    """Returns the message of an error of absl's flags, in one line."""
    if isinstance(error, flags.UnrecognizedFlagError):
        meant = re.search(r"Did you mean: (\S+)", str(error))
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
    """Rewrites a message of absl's about the value of a flag."""
    for pattern, kind in _VALUE_ERRORS:
        if match := re.fullmatch(pattern, line):
            name, value, *rest = match.groups()
            must_be = kind or " ".join(rest).replace("|", ", ")
            near = messages.meant(value, rest[-1].split("|")) if rest else ""
            return f"{name} must be {must_be}; got {value}.{near}"
    # Of several flags that are checked together: their values come first.
    return re.sub(r"^flags \w+=.*?: (?=[A-Z-])", "", line)
