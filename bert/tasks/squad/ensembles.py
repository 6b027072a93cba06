"""Ensembles of SQuAD systems: averages of their n-best answers.

Source: Devlin et al. 2019, Table 2 for an ensemble of seven systems, without
its method. It is in the package of the task, because an ensemble is the
`RankedAnswers` that the task decides on and writes; `paper/`, which imports no
task, runs `tools.evaluate_squad --ensemble` as a command.
"""

import collections
import itertools
from collections.abc import Mapping, Sequence

from bert.files import json_text, messages
from bert.tasks.squad import answer_ranking


def read_nbest(path: str) -> dict[str, tuple[answer_ranking.Candidate, ...]]:
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


def _candidate(entry: object, where: str) -> answer_ranking.Candidate:
    def number(name: str) -> float:
        return json_text.field(entry, name, (float, int), where)

    return answer_ranking.Candidate(
        text=json_text.field(entry, "text", str, where),
        probability=number("probability"),
        start_logit=number("start_logit"),
        end_logit=number("end_logit"),
    )


def combine_nbest(
    systems: Sequence[Mapping[str, Sequence[answer_ranking.Candidate]]],
    qas_ids: Sequence[str],
    *,
    n_best_size: int,
    version_2_with_negative: bool,
) -> list[answer_ranking.RankedAnswers]:
    """Averages the probabilities of answers over systems.

    A text that a system does not list has probability 0 in that system. Logits
    are averaged over the systems that list the text. Null odds are the mean of
    the systems' null odds, the score of "no answer" over their best other one.

    Args:
        systems: the n-best answers of each system, by question id.
        qas_ids: the ids of the questions.
        n_best_size: the number of answers.
        version_2_with_negative: whether "no answer" is one.

    Returns:
        One per question. Ties are in the order of the systems.

    Raises:
        ValueError: a system has other questions; with
            `version_2_with_negative` a question lacks "no answer".
    """
    for number, system in enumerate(systems, start=1):
        if set(system) != set(qas_ids):
            raise ValueError(
                "Systems must answer the questions of --predict_file; system "
                f"{number} answers others."
            )
    return [
        _combine(
            qas_id,
            [system[qas_id] for system in systems],
            n_best_size,
            version_2_with_negative,
        )
        for qas_id in qas_ids
    ]


def _combine(
    qas_id: str,
    systems: Sequence[Sequence[answer_ranking.Candidate]],
    n_best_size: int,
    version_2_with_negative: bool,
) -> answer_ranking.RankedAnswers:
    entries_of = collections.defaultdict(list)
    for entry in itertools.chain.from_iterable(systems):
        entries_of[entry.text].append(entry)
    combined = [
        answer_ranking.Candidate(
            text=text,
            probability=sum(e.probability for e in entries) / len(systems),
            start_logit=sum(e.start_logit for e in entries) / len(entries),
            end_logit=sum(e.end_logit for e in entries) / len(entries),
        )
        for text, entries in entries_of.items()
    ]
    combined.sort(key=lambda entry: entry.probability, reverse=True)
    kept, null_odds = combined[:n_best_size], None
    if version_2_with_negative:
        null_odds = _mean_null_odds(qas_id, systems)
        # The best answer with text and "no answer" are kept even beyond
        # `n_best_size`, as by `rank_answers`.
        for has_text in (False, True):
            if not any(bool(entry.text) is has_text for entry in kept):
                rest = (e for e in combined if bool(e.text) is has_text)
                kept += itertools.islice(rest, 1)
    return answer_ranking.RankedAnswers(
        qas_id=qas_id, nbest=tuple(kept), null_odds=null_odds
    )


def _mean_null_odds(
    qas_id: str, systems: Sequence[Sequence[answer_ranking.Candidate]]
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
    return sum(odds) / len(odds) if odds else answer_ranking.NO_ANSWER_ODDS
