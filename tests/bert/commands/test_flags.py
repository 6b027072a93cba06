import dataclasses
import os
import typing

import pytest
from absl import flags

from bert.commands import flags as flags_lib
from tests.support import documented_commands as documented
from tests.support import programs

Group = flags_lib.Group


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Base:
    first: int = Group.TRAINING.flag(1, "First.")
    inner: float | None = Group.SPEED.flag(None, "Inner.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Options(_Base):
    zzz: tuple[str, ...] = Group.TRAINING.flag(("a", "b"), "Z.")
    last: str = Group.TRAINING.required("Last.", choices=("x", "y"))
    first: int = flags_lib.redeclare(_Base, "first", 7)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Lists:
    sizes: tuple[int, ...] = Group.TRAINING.flag((1, 2), "Sizes.")
    rates: tuple[float, ...] | None = Group.TRAINING.optional("Rates.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Required:
    a: str = Group.FILES.flag("", "A.")
    b: str = Group.FILES.required("B.")
    c: str = Group.FILES.required("C.")


def test_flags_fill_the_dataclass_that_declares_them():
    values = flags.FlagValues()
    flags_lib.define(_Options, values)
    values(["", "--last=x"])
    assert flags_lib.read(_Options, values) == _Options(last="x")
    values(["", "--last=y", "--zzz=c", "--inner=0.5", "--first=2"])
    assert flags_lib.read(_Options, values) == _Options(
        last="y", zzz=("c",), inner=0.5, first=2
    )


def test_given_flags_are_those_of_the_command_line():
    values = flags.FlagValues()
    flags_lib.define(_Options, values)
    values(["", "--last=x", "--first=7"])
    assert flags_lib.given(values) == {"last", "first"}


def test_lists_have_parts_of_their_type():
    assert programs.parse(_Lists) == _Lists(sizes=(1, 2), rates=None)
    assert programs.parse(_Lists, sizes="8", rates="1e-3,2") == _Lists(
        sizes=(8,), rates=(1e-3, 2.0)
    )
    with pytest.raises(ValueError, match=r"'1\.5'"):
        programs.parse(_Lists, sizes="1.5")


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Preset:
    size: int = Group.TRAINING.flag(1, "Size.")
    rate: float = Group.TRAINING.flag(0.5, "Rate.")

    @classmethod
    def presets(cls, chosen):
        return {"size": 7, "rate": 0.25} if chosen["size"] != 3 else {}


class _Limit(flags.ArgumentParser):
    def parse(self, argument):
        return argument if argument == "auto" else float(argument)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _File(_Preset):
    sizes: tuple[int, ...] | None = Group.TRAINING.optional("Sizes.")
    limit: float | str = Group.TRAINING.flag(0.5, "Limit.", parser=_Limit())
    out: flags_lib.Path | None = Group.FILES.optional("Out.")
    kind: str = Group.TRAINING.flag("a", "Kind.", choices=("a", "b"))
    count: int = Group.TRAINING.positive(1, "Count.")
    share: float = Group.TRAINING.flag(
        0.5, "Share.", lower_bound=0.0, upper_bound=1.0
    )


def test_a_preset_changes_only_flags_that_the_command_does_not_give():
    values = flags.FlagValues()
    flags_lib.define(_Preset, values)
    values([""])
    assert flags_lib.read(_Preset, values) == _Preset(size=7, rate=0.25)
    # Also where the command repeats the default.
    values(["", "--size=1"])
    assert flags_lib.read(_Preset, values) == _Preset(size=1, rate=0.25)


@pytest.mark.parametrize(
    ("name", "values", "others"),
    [
        ("size", [3], [True, 3.0, "3", [3]]),
        ("rate", [3, 0.5], [False, "3"]),
        ("sizes", [[1, 2], (1, 2), []], [1, "1,2", ["1"], [1, True]]),
        ("limit", ["auto", 0.5, 2, "inf"], [True, [0.5], "never"]),
        ("out", ["runs"], [3, ["runs"]]),
        ("kind", ["a", "b"], ["A", "c", ""]),
        ("count", [1, 10**6], [0, -1]),
        ("share", [0, 0.25, 1.0], [-0.1, 1.5]),
    ],
)
def test_a_value_of_a_file_is_one_that_its_flag_takes(name, values, others):
    for value in values:
        flags_lib.check_value(_File, name, value, "task.json")
    for value in others:
        with pytest.raises(
            ValueError, match=f"task.json: '{name}' must be a value of --{name}"
        ):
            flags_lib.check_value(_File, name, value, "task.json")


def test_a_wrong_choice_in_a_file_is_an_error_that_lists_the_right_ones():
    with pytest.raises(ValueError, match="one of a, b; got 'c'"):
        flags_lib.check_value(_File, "kind", "c", "task.json")


def test_a_flag_declared_again_has_its_new_default_or_the_old_one():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Again:
        size: int = flags_lib.redeclare(_Preset, "size", 0)
        rate: float = flags_lib.redeclare(_Preset, "rate")

    assert programs.parse(Again) == Again(size=0, rate=0.5)


def test_a_value_that_is_needed_may_be_zero_but_not_missing():
    assert flags_lib.needed(0, "size") == 0
    with pytest.raises(ValueError, match=r"^--size must be given\.$"):
        flags_lib.needed(None, "size")


def test_a_part_of_the_flags_has_the_values_of_the_same_names():
    wider = _Options(last="x", inner=0.5)
    narrow = flags_lib.narrow(_Base, wider)
    assert narrow == _Base(first=7, inner=0.5)
    assert flags_lib.narrow(_Base, wider, inner=None) == _Base(first=7)
    # It has no value of these names.
    assert flags_lib.narrow(_Preset, wider) == _Preset(size=1, rate=0.5)
    with pytest.raises(AttributeError, match="'b'"):
        flags_lib.narrow(_Required, wider)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Bounded:
    share: float = Group.TRAINING.flag(
        0.5, "Share.", lower_bound=0, upper_bound=1
    )
    size: int = Group.SPEED.positive(1, "Size.")
    rest: int = Group.SPEED.non_negative(0, "Rest.")


@pytest.mark.parametrize(
    "named", [{"share": 1.5}, {"share": -0.5}, {"size": 0}, {"rest": -1}]
)
def test_numbers_have_the_bounds_of_their_flags(named):
    at_the_bounds = {"share": 1.0, "size": 1, "rest": 0}
    assert programs.parse(_Bounded, **at_the_bounds) == _Bounded(
        **at_the_bounds
    )
    (name,) = named
    message = f"flag --{name}="
    with pytest.raises(flags.IllegalFlagValueError, match=message):
        programs.parse(_Bounded, **named)


def test_all_required_flags_that_are_missing_or_empty_are_named():
    values = flags.FlagValues()
    flags_lib.define(_Required, values)
    for arguments, names in (([], "--b, --c"), (["--b=", "--c=x"], "--b")):
        values(["", *arguments])
        with pytest.raises(ValueError, match=f"^{names} must be given.$"):
            flags_lib.read(_Required, values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Paths:
    out: flags_lib.Path = Group.FILES.required("Out.")
    texts: flags_lib.Path | None = Group.FILES.optional("Texts.")
    note: str = Group.FILES.flag("", "Note.")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def test_a_tilde_is_the_home_folder_in_every_part_of_a_path(home):
    (home.parent / "~").mkdir()  # Of a program that did not replace it.
    options = programs.parse(
        _Paths, out="~/run", texts="a*.txt, ~/b.txt,~", note="~/x"
    )
    assert options == _Paths(
        out=f"{home}/run", texts=f"a*.txt,{home}/b.txt,{home}", note="~/x"
    )


def test_a_tilde_is_the_home_folder_in_a_flag_file(home, tmp_path):
    (tmp_path / "x.flags").write_text("--out=~/run\n")
    options = programs.parse(_Paths, "--flagfile=x.flags")
    assert options.out == f"{home}/run"
    assert os.listdir(tmp_path) == ["x.flags"]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("$OUT", r"\$OUT stays as it is written"),
        # As Python reads the name of a folder in a locale without its letters.
        ("m\udce6\udca8", "locale of the terminal; set PYTHONUTF8=1"),
        ("runs/${NAME}-1/x", r"\$\{NAME\}-1 stays"),
        ("a.txt,$HOME/b.txt", r"\$HOME stays"),
        ("$(date)", r"\$\(date\) stays"),
        ("`date`/x", "`date` stays"),
        ("runs/{NAME}", r"\{NAME\} stays"),
        ("data/{a,b}.txt", r"\{a,b\} stays"),
        ("gs://bucket/$X", r"\$X stays"),
        ("gs:/bucket/run", r"an address has two slashes, as gs://bucket/run;"),
        ("a.txt,hdfs:/x/b.txt", "two slashes, as hdfs://x/b.txt;"),
        ("a.txt, hdfs:/x/b.txt", "two slashes, as hdfs://x/b.txt;"),
        ("s3:/x", "two slashes, as s3://x;"),
        ("~nobody.here/run", "there is no user 'nobody.here'"),
        ('"runs/1"', "the quotes are a part of this path"),
        ("'~/run'", "the quotes are a part of this path"),
    ],
)
@pytest.mark.usefixtures("home")
def test_a_name_that_only_a_shell_replaces_is_refused_by_its_flag(
    path, message, tmp_path
):
    (tmp_path / "gs:").mkdir()
    start = f"--texts={path}: "
    with pytest.raises(ValueError, match=message) as caught:
        programs.parse(_Paths, out="x", texts=path)
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value)
    assert programs.parse(_Paths, out="x", note=path).note == path


@pytest.mark.usefixtures("home")
def test_existing_names_may_have_any_character(tmp_path):
    names = ["a$b", "{c}", "~d", "'e'", "f,$g"]
    for name in names:
        (tmp_path / name).mkdir()
    for name in ("m$.ckpt.index", "m[1]$.ckpt.index"):
        (tmp_path / "a$b" / name).touch()
    prefixes = ("a$b/m$.ckpt", "a$b/m[1]$.ckpt")
    for path in (*names, *prefixes, "a$b/new", "{c}/*.txt", "./gs:/x"):
        assert programs.parse(_Paths, out=path).out == path
    for path in ("-", "C:/x", "hf://a/b", "gs://bucket/x", "a{b", "x~"):
        assert programs.parse(_Paths, out=path).out == path


def test_every_flag_of_a_file_or_folder_is_a_path():
    names = {"input", "output", "init_checkpoint", "output_checkpoint"}
    for program in documented.programs():
        module = documented.module(program)
        hints = typing.get_type_hints(module.Options, include_extras=True)
        for field in dataclasses.fields(module.Options):
            hint = hints[field.name]
            is_path = flags_lib.Path in (hint, *typing.get_args(hint))
            is_meant = field.name.endswith(("_file", "_dir"))
            if is_meant or field.name in names:
                assert is_path, (program, field.name)
            else:
                # A folder of a model, and a list of files.
                assert not is_path or field.name in ("model", "ensemble")
