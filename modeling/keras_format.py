"""Keras' `.weights.h5` files, read and written under the release's names.

A file is laid out as `save_weights` of one of our models lays it out, so that
plain Keras reads it: `load_weights` of that class and, where it has nothing of
its own at the top, of `BertModel` too. Variables that such a model does not
have (moments of the optimizer, the step, other heads) are in a group of their
own.
"""

import collections
import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from files import messages, writing
from modeling import name_tables
from modeling.annotations import Spec

if TYPE_CHECKING:
    import h5py

SUFFIX = ".weights.h5"

# Keras' name of a group of variables, and ours for all that it has no place
# for: one dataset each, whose attribute is the release's name.
_OTHERS = "release_variables"
_NAME = "name"
_FOREIGN = "keras/"
_ENCODER = "bert"
# What a `BertModel` on its own has at the top.
_ENCODER_PARTS = ("embeddings", "encoder", "layers")
_MOST_PLACES = 2  # Of a group; our writer gives the encoder two.
_MOST_COMPRESSION = 1100  # Source: zlib.net, "maximum compression factor".
# A head of each class by a path that no other class has, most telling first.
_TELLING = {
    "BertForPreTraining": "cls/children/masked_language_model",
    "BertForMultipleChoice": "cls/children/choice_score",
    "BertForQuestionAnswering": "cls/children/output_layer",
    name_tables.SEQUENCE_CLASSIFICATION: "vars/0",
    "BertModel": "bert",
}
_MODELS = (*_TELLING, name_tables.TOKEN_CLASSIFICATION)
_CLASSIFIERS = (
    name_tables.SEQUENCE_CLASSIFICATION,
    name_tables.TOKEN_CLASSIFICATION,
)


class Reader:
    """Reads a file under the release's names; see `checkpoints.Source`.

    Args:
        path: of a local file.

    Raises:
        ValueError: the file is broken, or of another model than ours.
    """

    kind = "Keras"

    def __init__(self, path: str):
        import h5py

        self.origin = path
        with _explained(path):
            self._file = h5py.File(path, "r")
        try:
            with _explained(path):
                _require_own_data(self._file)
                architecture = _architecture(self._file)
                groups = sorted(self._file)
            if architecture is None:
                raise ValueError(
                    f"{path!r} must be the weights of a model of this "
                    "project; it holds the groups "
                    f"{messages.names(groups) or '(none)'}, which are "
                    "another model's. Convert them with the program that "
                    "wrote them."
                )
            with _explained(path):
                self._paths = _named(self._file, architecture)
                self.variables: dict[str, Spec] = {
                    name: (tuple(held.shape), held.dtype.name)
                    for name, held in sorted(self._paths.items())
                }
        except BaseException:
            self._file.close()
            raise
        # Sentences and words are labelled by variables of one name.
        self.architectures = (
            () if architecture in _CLASSIFIERS else (architecture,)
        )
        self.notes: tuple[str, ...] = ()

    def read(self, name: str) -> np.ndarray:
        """Reads a variable by the release's name."""
        with _explained(self.origin):
            return np.asarray(self._paths[name][()])

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def write(
    path: str,
    variables: Mapping[str, Spec],
    read: Callable[[str], np.ndarray],
    *,
    num_layers: int,
    architectures: Collection[str],
) -> None:
    """Writes a `.weights.h5`; one array at a time is in memory.

    Args:
        path: of the file; a name that ends in `SUFFIX`.
        variables: shape and type by the release's name.
        read: returns the array of a name.
        num_layers: of the configuration; deeper layers become other variables.
        architectures: of `name_tables.architectures`; the first that is a
            class of ours is what Keras can load.

    Raises:
        OSError: the file cannot be written.
    """
    import h5py

    architecture = next((a for a in architectures if a in _MODELS), None)
    paths = keras_paths(architecture, num_layers) if architecture else {}
    with writing.whole_file(path, "w+b") as file, h5py.File(file, "w") as h5:
        others = 0
        for name in sorted(variables):
            if name in paths:
                h5[paths[name]] = read(name)
            elif name.startswith(_FOREIGN):
                h5[name.removeprefix(_FOREIGN)] = read(name)
            else:
                h5[f"{_OTHERS}/{others}"] = read(name)
                # As bytes: text is kept in a heap of the file, which HDF5
                # never leaves where it is damaged.
                h5[f"{_OTHERS}/{others}"].attrs[_NAME] = np.bytes_(
                    name.encode("utf-8")
                )
                others += 1
        if _ENCODER in h5 and "vars" not in h5:
            for part in _ENCODER_PARTS:
                if part in h5[_ENCODER]:
                    h5[part] = h5[f"{_ENCODER}/{part}"]


def files(path: str) -> list[str]:
    """Lists the files of a checkpoint: the one."""
    return [path]


def keras_paths(architecture: str, num_layers: int) -> dict[str, str]:
    """Returns the paths of a model's variables in Keras' file, by release name.

    Args:
        architecture: one of `name_tables.ARCHITECTURES`. An encoder alone is
            given as part of a model, which is where `write` puts it.
        num_layers: of its encoder.
    """
    variables = [
        *name_tables.encoder(num_layers),
        *name_tables.head(architecture),
    ]
    return {variable.release: variable.keras for variable in variables}


@contextlib.contextmanager
def _explained(path: str) -> Iterator[None]:
    """Reports a file that h5py cannot read as broken."""
    try:
        yield
    # What h5py raises where a file is damaged depends on the place.
    except (OSError, RuntimeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path!r} is cut short, or no HDF5 file ({error}). If it was "
            "copied, copy it again."
        ) from error


def _require_own_data(file: "h5py.File") -> None:
    """Checks that a file holds all of its data.

    HDF5 may point to other files, where the data of others lie, may claim
    arrays of any size for data that is not there, and may hold groups that
    hold themselves.

    Raises:
        OSError: it does not.
    """
    import h5py

    groups = [file]
    times: collections.Counter[int] = collections.Counter()
    while groups:
        group = groups.pop()
        for name in group:
            place = f"{group.name.rstrip('/')}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise OSError(f"{place} is a link; only plain arrays are read")
            member = group.get(name)
            if isinstance(member, h5py.Group):
                where = h5py.h5o.get_info(member.id).addr
                times[where] += 1
                if times[where] > _MOST_PLACES:
                    raise OSError(f"{place} is a group that holds itself")
                groups.append(member)
            elif isinstance(member, h5py.Dataset):
                _require_plain(member, place)


def _require_plain(dataset: "h5py.Dataset", place: str) -> None:
    if dataset.is_virtual or dataset.external:
        raise OSError(f"{place} lies in another file")
    if dataset.dtype.kind not in "fiub":
        raise OSError(f"{place} holds no numbers, but {dataset.dtype}")
    stored = dataset.id.get_storage_size()
    if dataset.nbytes > stored * _MOST_COMPRESSION:
        raise OSError(
            f"{place} claims {dataset.nbytes} bytes; {stored} are there"
        )


def _architecture(file: "h5py.File") -> str | None:
    for name, telling in _TELLING.items():
        if telling in file and _ENCODER in file:
            return name
    is_known = "embeddings/vars" in file or _OTHERS in file
    return "BertModel" if is_known else None


def _named(file: "h5py.File", architecture: str) -> "dict[str, h5py.Dataset]":
    """Finds the datasets by release name."""
    held = dict(_datasets(file))
    is_bare = _ENCODER not in file
    table = {
        path.removeprefix(f"{_ENCODER}/") if is_bare else path: name
        for name, path in keras_paths(architecture, _num_layers(held)).items()
    }
    named = {}
    for path, dataset in held.items():
        name = table.get(path) or _own_name(dataset) or f"{_FOREIGN}{path}"
        if name in named:
            raise ValueError(f"{path} is named {name!r:.100}, as is another")
        named[name] = dataset
    return named


def _own_name(dataset: "h5py.Dataset") -> str | None:
    """Returns the name that `write` gave a variable, if it did.

    Raises:
        OSError: what is there is no text of fixed length; see `write`.
    """
    import h5py

    if _NAME not in dataset.attrs:
        return None
    kept = h5py.h5a.open(dataset.id, _NAME.encode()).get_type()
    is_plain = isinstance(kept, h5py.h5t.TypeStringID)
    name = None
    if is_plain and not kept.is_variable_str():
        name = dataset.attrs[_NAME]
    if not isinstance(name, bytes):
        raise OSError(f"the name of {dataset.name} is no text of fixed length")
    return name.decode("utf-8")


def _datasets(file: "h5py.File") -> "Iterator[tuple[str, h5py.Dataset]]":
    """Yields datasets by path, once those that stand there twice."""
    import h5py

    aliases = _ENCODER_PARTS if _ENCODER in file else ()

    def below(
        group: "h5py.Group", path: str
    ) -> "Iterator[tuple[str, h5py.Dataset]]":
        for name, member in group.items():
            if isinstance(member, h5py.Dataset):
                yield path + name, member
            elif isinstance(member, h5py.Group):
                if path or name not in aliases:
                    yield from below(member, f"{path}{name}/")
            else:
                raise OSError(f"{path}{name} cannot be read")

    yield from below(file, "")


def _num_layers(paths: Collection[str]) -> int:
    stacks = {
        path.partition("/stack/")[2].partition("/")[0]
        for path in paths
        if "/stack/" in path
    }
    return len(stacks)
