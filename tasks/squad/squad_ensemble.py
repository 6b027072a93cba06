"""Ensembles of SQuAD systems by averaging answers or logits.

Source: Devlin et al. 2019, Table 2 (an ensemble of seven systems), without the
method. Here either the probabilities of answers are averaged, or, before the
search, the logits of windows.
"""

import collections
import dataclasses
import itertools
import struct
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from files import json_text, messages, paths, writing
from tasks.squad import squad_answers

LOGITS_ENDING = ".npz"
_ROUNDING = 1e-6  # Rounding error of float32 probabilities.
# Errors of numpy.load and its result for other files: empty, a broken
# archive, a single array (TypeError), other arrays, pickles.
_NOT_LOGITS = (
    *(OSError, EOFError, zipfile.BadZipFile, zlib.error, TypeError, KeyError),
    # Encrypted members, unknown methods, offsets and sizes out of range.
    *(ValueError, RuntimeError, OverflowError, MemoryError, struct.error),
)


def combine_nbest(
    systems: Sequence[Mapping[str, Sequence[squad_answers.Candidate]]],
    qas_ids: Sequence[str],
    options: squad_answers.AnswerOptions,
) -> list[squad_answers.RankedAnswers]:
    """Averages the probabilities of answers over systems.

    A text that a system does not list has probability 0 in that system; so has
    the placeholder of a system without any candidate, unless all have none.
    Logits are averaged over the systems that list the text. Null odds are the
    mean of the systems' null odds, the score of "no answer" over their best
    other one.

    Args:
        systems: the n-best answers of each system, by question id.
        qas_ids: the ids of the questions.
        options: sets the number of answers, and whether "no answer" is one.

    Returns:
        One per question. Ties are in the order of the systems.

    Raises:
        ValueError: a system has other questions; with
            `version_2_with_negative` a question lacks "no answer".
    """
    for number, system in enumerate(systems, start=1):
        missing = [qas_id for qas_id in qas_ids if qas_id not in system]
        unknown = sorted(set(system).difference(qas_ids))
        if missing or unknown:
            raise ValueError(
                "Systems must answer the questions of --predict_file; system "
                f"{number} lacks {len(missing)} and has {len(unknown)} others, "
                f"among them {(missing + unknown)[0]!r}."
            )
    return [
        _combine(qas_id, [system[qas_id] for system in systems], options)
        for qas_id in qas_ids
    ]


def average_logits(
    systems: Sequence[squad_answers.Logits],
) -> squad_answers.Logits:
    """Averages start and end logits, window by window.

    The systems must have the same vocabulary and window options, so that their
    windows are identical.

    Raises:
        ValueError: their windows or lengths differ.
    """
    systems = [_in_order(system) for system in systems]
    ids, shape = systems[0].unique_ids, systems[0].values.shape
    for number, other in enumerate(systems[1:], start=2):
        logits = other.values
        if logits.shape != shape or not np.array_equal(ids, other.unique_ids):
            raise ValueError(
                "Systems must have the same windows; system 1 has "
                f"{shape[0]} of {shape[2]} tokens, system {number} has "
                f"{logits.shape[0]} of {logits.shape[2]}, or their ids "
                "differ. Predict with the same file, vocabulary and options."
            )
    mean = np.mean([system.values for system in systems], axis=0)
    return squad_answers.Logits(unique_ids=ids, values=mean)


def _in_order(logits: squad_answers.Logits) -> squad_answers.Logits:
    """Returns logits in the order of the ids, as int64 and float32."""
    order = np.argsort(logits.unique_ids, kind="stable")
    return squad_answers.Logits(
        unique_ids=logits.unique_ids[order].astype(np.int64),
        values=logits.values[order].astype(np.float32),
    )


def is_logits(system_paths: Sequence[str]) -> bool:
    """Returns whether systems are logits rather than n-best answers.

    Raises:
        ValueError: the kinds are mixed.
    """
    kinds = {path.endswith(LOGITS_ENDING) for path in system_paths}
    if len(kinds) > 1:
        raise ValueError(
            "Systems must be combined by files of one kind, "
            f"nbest_predictions.json or logits ({LOGITS_ENDING}); got "
            f"{', '.join(system_paths)}."
        )
    return kinds == {True}


def read_nbest(path: str) -> dict[str, tuple[squad_answers.Candidate, ...]]:
    """Reads an nbest_predictions.json of this project or the release.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not JSON or has another format.
    """
    nbest_of = {}
    for qas_id, nbest in json_text.read_object(path).items():
        where = f"{path}: question {messages.short(qas_id)}"
        if not isinstance(nbest, list) or not nbest:
            raise ValueError(
                f"{where} must have a list of answers; "
                f"got {messages.short(nbest)}."
            )
        nbest_of[qas_id] = tuple(
            _candidate(entry, f"{where}[{place}]")
            for place, entry in enumerate(nbest)
        )
    return nbest_of


def _candidate(entry: Any, where: str) -> squad_answers.Candidate:
    values = {}
    for field in dataclasses.fields(squad_answers.Candidate):
        kind = str if field.name == "text" else (float, int)
        value = json_text.field(entry, field.name, kind, where)
        if kind is not str and not json_text.is_number(value):
            raise ValueError(
                f"{where}.{field.name} must be a finite number; "
                f"got {messages.short(value)}."
            )
        values[field.name] = value
    candidate = squad_answers.Candidate(**values)
    if not 0 <= candidate.probability <= 1 + _ROUNDING:
        raise ValueError(
            f"{where}.probability must be in [0, 1]; "
            f"got {messages.short(candidate.probability)}."
        )
    return candidate


def write_logits(path: str, logits: squad_answers.Logits) -> None:
    """Writes logits as arrays `unique_ids` `[W]`, `logits` `[W, 2, T]`."""
    logits = _in_order(logits)
    with writing.whole_file(path, "wb") as file:
        np.savez_compressed(
            file, unique_ids=logits.unique_ids, logits=logits.values
        )


def read_logits(path: str) -> squad_answers.Logits:
    """Reads logits written by `write_logits`.

    Raises:
        OSError: the file cannot be opened.
        ValueError: it is not a file of logits.
    """
    with paths.open_to_read(path) as file:
        try:
            with np.load(file, allow_pickle=False) as arrays:
                return _checked(arrays["unique_ids"], arrays["logits"])
        except _NOT_LOGITS as error:
            raise ValueError(
                f"{path}: must be a file of logits with arrays unique_ids and "
                f"logits; {messages.truncate(str(error))}."
            ) from error


def _checked(ids: np.ndarray, logits: np.ndarray) -> squad_answers.Logits:
    """Checks that arrays are ids `[W]` and logits `[W, 2, T]`."""
    # A damaged member is returned as bytes.
    if not isinstance(ids, np.ndarray) or not isinstance(logits, np.ndarray):
        raise ValueError("one of them is not an array")
    if ids.dtype.kind not in "iu" or ids.ndim != 1:
        raise ValueError(
            f"unique_ids must be [W] integers; got {ids.dtype} of shape "
            f"{list(ids.shape)}"
        )
    if logits.dtype.kind != "f" or (
        logits.ndim != 3 or logits.shape[:2] != (len(ids), 2)
    ):
        raise ValueError(
            f"logits must be [{len(ids)}, 2, T] floats; got {logits.dtype} of "
            f"shape {list(logits.shape)}"
        )
    return squad_answers.Logits(unique_ids=ids, values=logits)


def _combine(
    qas_id: str,
    systems: Sequence[Sequence[squad_answers.Candidate]],
    options: squad_answers.AnswerOptions,
) -> squad_answers.RankedAnswers:
    answered = systems
    if not options.version_2_with_negative:
        answered = [
            nbest
            for nbest in systems
            if not squad_answers.is_placeholder(nbest)
        ]
    entries_of = collections.defaultdict(list)
    for nbest in answered or systems:
        for entry in nbest:
            entries_of[entry.text].append(entry)
    combined = [
        squad_answers.Candidate(
            text=text,
            probability=sum(e.probability for e in entries) / len(systems),
            start_logit=sum(e.start_logit for e in entries) / len(entries),
            end_logit=sum(e.end_logit for e in entries) / len(entries),
        )
        for text, entries in entries_of.items()
    ]
    combined.sort(key=lambda entry: entry.probability, reverse=True)
    size = options.n_best_size
    kept, null_odds = combined[:size], None
    if options.version_2_with_negative:
        null_odds = _mean_null_odds(qas_id, systems)
        # As for one system: one more, if "no answer" is missing, or if there
        # is nothing else.
        for has_text in (False, True):
            if not any(bool(entry.text) is has_text for entry in kept):
                rest = (e for e in combined if bool(e.text) is has_text)
                kept += itertools.islice(rest, 1)
    return squad_answers.RankedAnswers(
        qas_id=qas_id, nbest=tuple(kept), null_odds=null_odds
    )


def _mean_null_odds(
    qas_id: str, systems: Sequence[Sequence[squad_answers.Candidate]]
) -> float:
    odds = []
    for nbest in systems:
        null = next((entry for entry in nbest if not entry.text), None)
        if null is None:
            raise ValueError(
                'With version_2_with_negative "no answer" must be among the '
                f"answers to every question; a system lacks it for {qas_id!r}."
            )
        best = next((entry for entry in nbest if entry.text), None)
        if best is not None:
            score = null.start_logit + null.end_logit
            odds.append(score - best.start_logit - best.end_logit)
    return sum(odds) / len(odds) if odds else squad_answers.NO_ANSWER_ODDS
