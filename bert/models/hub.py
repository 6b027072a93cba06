"""Models of Hugging Face's hub, fetched by address into its cache.

`hf://ORGANISATION/NAME@REVISION` is a branch, tag or commit of a model. Without
`@REVISION` it is the branch `main`; a few old models have no organisation.
Files are fetched by huggingface_hub, so its cache, its environment variables
(HF_ENDPOINT, HF_TOKEN, HF_HUB_CACHE, HF_HOME, HF_HUB_OFFLINE) and the login of
`hf auth login` have the effects that they have there.
"""

import contextlib
import dataclasses
import logging
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Self, TypeGuard

from bert.files import json_text, messages, paths, run_files
from bert.models import sentence_encoder
from modeling import huggingface, huggingface_config
from vocab import huggingface_tokenizer

_SCHEME = "hf://"
_ADDRESS = re.compile(r"hf://((?:[^/@]+/)?[^/@]+)(?:@(.+?))?/?")
# The configuration, the tokenizer, and the pooling of sentence-transformers.
_SMALL_FILES = (
    huggingface_config.CONFIG,
    run_files.VOCABULARY,
    huggingface_tokenizer.CONFIG,
    huggingface_tokenizer.PIPELINE,
    "added_tokens.json",
    "special_tokens_map.json",
    "sentence_bert_config.json",
    sentence_encoder.MODULES,
    sentence_encoder.SETTINGS,
    "1_Pooling/config.json",
)
_CLIENT = "httpx2"  # The logger of huggingface_hub's HTTP client.
_NO_ACCESS = (401, 403)  # HTTP: unauthorized, forbidden.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Address:
    """A model on the hub.

    Attributes:
        name: `ORGANISATION/NAME`, or `NAME`.
        revision: a branch, tag or commit; None for the branch `main`.
    """

    name: str
    revision: str | None

    @classmethod
    def parse(cls, address: str) -> Self:
        """Reads an address.

        Raises:
            ValueError: it has another form.
        """
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise ValueError(
                "The address of a model must be hf://ORGANISATION/NAME, with "
                f"@REVISION if it is not that of main; got {address}."
            )
        return cls(name=match[1], revision=match[2])

    def __str__(self) -> str:
        suffix = f"@{self.revision}" if self.revision else ""
        return f"{_SCHEME}{self.name}{suffix}"


def is_address(path: str) -> bool:
    """Returns whether a path is the address of a model on the hub."""
    return path.startswith(_SCHEME)


def check_path(path: str) -> None:
    """Checks that a path that is no address leads to a file or a folder.

    Raises:
        FileNotFoundError: nothing is there.
    """
    if is_address(path) or paths.is_folder(path) or paths.exists(path):
        return
    folder, name = os.path.split(path)
    if folder and paths.matching(folder, f"{name}.*"):
        return  # The prefix of a checkpoint.
    advice = ""
    if _ADDRESS.fullmatch(f"{_SCHEME}{path}"):
        advice = f" A model of the Hugging Face hub is {_SCHEME}{path}."
    raise FileNotFoundError(f"{path}: there is no such folder.{advice}")


def resolve(address: str) -> str:
    """Fetches a model into the cache of the hub, except for what is there.

    The small files come first: the weights of another network, or of one with
    another tokenizer, are not fetched.

    Returns:
        The folder of the model in the cache.

    Raises:
        OSError: the model cannot be fetched, or is not in the cache without
            network; the message says what to do.
        ValueError: the address has another form; the model, or its tokenizer,
            is not BERT's; or it has no supported weights.
    """
    model = Address.parse(address)
    folder = _download(model, [*_SMALL_FILES, *huggingface.INDICES])
    commit = dataclasses.replace(model, revision=os.path.basename(folder))
    names = _list_files(commit, folder)
    _check_has(model, [huggingface_config.CONFIG], names)
    huggingface_config.check(
        json_text.read_object(os.path.join(folder, huggingface_config.CONFIG)),
        f"{model}: {huggingface_config.CONFIG}",
    )
    huggingface_tokenizer.read(folder)
    _check_has(model, huggingface.FILES, names)
    _download(commit, _weights(folder, names))
    return folder


def files_of(folder: str) -> list[str]:
    """Lists the files that `resolve` fetched, by their paths in the folder.

    Other programs may have fetched others.
    """

    def existing(names: Sequence[str]) -> list[str]:
        return [n for n in names if os.path.exists(os.path.join(folder, n))]

    weights = _weights(folder, existing(huggingface.FILES))
    return [*existing(_SMALL_FILES), *weights]


def _weights(folder: str, names: Collection[str]) -> list[str]:
    """Lists the files of the weights, and their index if they are sharded."""
    first = next(name for name in huggingface.FILES if name in names)
    if first not in huggingface.INDICES:
        return [first]
    shards = huggingface.shards_of(os.path.join(folder, first))
    return [first, *sorted({*shards.values()})]


def _check_has(
    model: Address, wanted: Sequence[str], names: Collection[str]
) -> None:
    from huggingface_hub import constants

    if {*wanted} & {*names}:
        return
    if constants.is_offline_mode():
        raise _not_cached(model)
    raise ValueError(
        f"{model} must have a file {' or '.join(wanted)}; it has "
        f"{messages.names(sorted(names)) or 'no files'}."
    )


def _not_cached(model: Address) -> FileNotFoundError:
    from huggingface_hub import constants

    return FileNotFoundError(
        f"{model} is not complete in the cache {constants.HF_HUB_CACHE}, and "
        "HF_HUB_OFFLINE is set. Download it once with network."
    )


def _download(model: Address, names: Sequence[str]) -> str:
    """Fetches files, as far as the model has them; returns their folder."""
    # Late, for a quick --help.
    import huggingface_hub

    with _one_line_errors(model), _quiet_in_logs():
        return huggingface_hub.snapshot_download(
            model.name,
            revision=model.revision,
            allow_patterns=[*names],
        )


def _list_files(commit: Address, folder: str) -> list[str]:
    """Lists the files of a commit that was fetched."""
    import huggingface_hub
    from huggingface_hub import errors

    try:
        tree = huggingface_hub.get_cached_repo_tree(
            commit.name, revision=commit.revision
        )
    except errors.CachedRepoTreeNotFoundError:
        # There is no network, and hf_hub_download filled the cache.
        return os.listdir(folder)
    return [file.path for file in tree]


def _quiet_in_logs() -> contextlib.AbstractContextManager[object]:
    """Leaves out the requests, and outside terminals the bars."""
    from huggingface_hub import utils

    logging.getLogger(_CLIENT).setLevel(logging.WARNING)
    if sys.stderr.isatty():
        return contextlib.nullcontext()
    return utils.disable_progress_bars()


@contextlib.contextmanager
def _one_line_errors(model: Address) -> Iterator[None]:
    """Replaces the errors of huggingface_hub by one line for users."""
    import httpx2  # The client of huggingface_hub, whose errors it passes on.
    from huggingface_hub import constants, errors

    site, cache = constants.ENDPOINT, constants.HF_HUB_CACHE
    login = "log in with `hf auth login`, or set HF_TOKEN"

    def refusal(cause: BaseException) -> PermissionError:
        return PermissionError(
            f"{site} refuses access to {model}: {login}, with a token that is "
            f"valid and may read the model. The cause: {_one_line(cause)}"
        )

    try:
        yield
    except errors.HFValidationError as error:
        raise ValueError(f"{model}: {_one_line(error)}") from error
    except errors.GatedRepoError as error:
        raise PermissionError(
            f"{model} is gated: accept its conditions on {site}/{model.name}, "
            f"then {login}."
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise FileNotFoundError(
            f"There is no model {model.name} on {site}, or it is private. "
            f"Check the name; for a private model, {login}."
        ) from error
    except errors.RevisionNotFoundError as error:
        raise FileNotFoundError(
            f"The model {model.name} on {site} has no revision "
            f"{model.revision}."
        ) from error
    except errors.LocalEntryNotFoundError as error:
        if constants.is_offline_mode():
            raise _not_cached(model) from error
        if _is_refusal(error.__cause__):
            raise refusal(error.__cause__) from error
        raise ConnectionError(
            f"{model} cannot be fetched from {site}, and is not complete in "
            f"the cache {cache}. Check the network, the proxy and HF_ENDPOINT. "
            f"The cause: {_one_line(error.__cause__ or error)}"
        ) from error
    except (httpx2.HTTPError, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise  # The system's, such as of a full disk.
        if _is_refusal(error):
            raise refusal(error) from error
        raise ConnectionError(
            f"{model} cannot be fetched from {site}. Run the same command "
            f"again. The cause: {_one_line(error)}"
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        raise ConnectionError(
            f"{model} cannot be fetched from {site}, which does not answer as "
            "the hub does. Check HF_ENDPOINT and the proxy. The cause: "
            f"{type(error).__name__}: {_one_line(error)}"
        ) from error


def _is_refusal(error: BaseException | None) -> TypeGuard[BaseException]:
    response = getattr(error, "response", None)
    return response is not None and response.status_code in _NO_ACCESS


def _one_line(error: BaseException) -> str:
    return messages.truncate(" ".join(str(error).split()), 300)
