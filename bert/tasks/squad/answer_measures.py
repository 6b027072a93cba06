"""Measures of an answer against the ground truth, by words or characters."""

import collections
import dataclasses
import difflib
import re
import string
from collections.abc import Callable, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)  # ASCII only.
_KOREAN_QUOTES = str.maketrans(dict.fromkeys("'\"《》<>〈〉()‘’", " "))
_CHINESE_PUNCTUATION = str.maketrans(
    "", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
)
# A Chinese character, a word or number, or a mark. In CMRC 2018, Chinese
# characters end at U+9FA5.
_LETTERS = r"[^\W\u4e00-\u9fa5]+"
_CHINESE_UNITS = re.compile(
    rf"[\u4e00-\u9fa5]|{_LETTERS}(?:(?:\.|,(?=\d)){_LETTERS})*|[^\w\s]"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measure:
    """Exact match and F1 of two texts.

    Attributes:
        normalize: converts a text before it is compared.
        units: splits a normalized text into what F1 counts.
        num_common: counts the units that two texts have in common.
    """

    normalize: Callable[[str], str]
    units: Callable[[str], list[str]]
    num_common: Callable[[Sequence[str], Sequence[str]], int]

    def exact_match(self, gold_text: str, prediction: str) -> float:
        """Returns 1 if two normalized texts are equal, else 0."""
        return float(self.normalize(gold_text) == self.normalize(prediction))

    def f1(self, gold_text: str, prediction: str) -> float:
        """Returns F1 over the units of two texts, 0 to 1.

        As in the official script of SQuAD 1.1, two texts without units score 0.
        """
        gold_units = self.units(self.normalize(gold_text))
        units = self.units(self.normalize(prediction))
        num_common = self.num_common(gold_units, units)
        if not num_common:
            return 0.0
        precision = num_common / len(units)
        recall = num_common / len(gold_units)
        return 2 * precision * recall / (precision + recall)


def _shared(first: Sequence[str], second: Sequence[str]) -> int:
    common = collections.Counter(first) & collections.Counter(second)
    return common.total()


def _longest_run(first: Sequence[str], second: Sequence[str]) -> int:
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    return matcher.find_longest_match().size


def _normalize_english(text: str) -> str:
    """Lower-cases a text and drops ASCII punctuation, articles, extra space."""
    text = text.lower().translate(_PUNCTUATION)
    return " ".join(_ARTICLES.sub(" ", text).split())


def _normalize_korean(text: str) -> str:
    text = text.translate(_KOREAN_QUOTES).lower().translate(_PUNCTUATION)
    return " ".join(text.split())


def _normalize_chinese(text: str) -> str:
    return text.lower().strip().translate(_CHINESE_PUNCTUATION)


SQUAD, CMRC_2018, KORQUAD = "squad", "cmrc2018", "korquad"
MEASURES = {
    # Source: evaluate-v1.1.py and evaluate-v2.0.py of SQuAD.
    SQUAD: Measure(
        normalize=_normalize_english, units=str.split, num_common=_shared
    ),
    # Source: cmrc2018_evaluate.py, version 5.
    # Differs: it splits text between Chinese characters into words by NLTK.
    CMRC_2018: Measure(
        normalize=_normalize_chinese,
        units=_CHINESE_UNITS.findall,
        num_common=_longest_run,
    ),
    # Source: evaluate-v1.0.py of KorQuAD 1.0.
    KORQUAD: Measure(
        normalize=_normalize_korean,
        units=lambda text: list(text.replace(" ", "")),
        num_common=_shared,
    ),
}
