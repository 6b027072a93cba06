"""SQuAD windows as model input: [CLS] question [SEP] part of the paragraph.

Source: behavior of run_squad.py of google-research/bert, measured;
Devlin et al. 2019, §4.2.
"""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bert.commands import flags
from bert.records import schema
from bert.tasks import sentence_pairs
from bert.tasks.squad import question_files
from vocab import tokenization

NUM_SPECIAL_TOKENS = 3  # [CLS] question [SEP] part [SEP]
_FIRST_UNIQUE_ID = 1000000000  # Source: run_squad.py of the release.
# Called with the name of a phase, the amount done and the total.
Progress = Callable[[str, int, int], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """Options for splitting paragraphs; the defaults are those of run_squad.py.

    Raises:
        ValueError: no room is left for the paragraph.
    """

    max_seq_length: int = flags.Group.TEXT.positive(
        384,
        "Word pieces of a window: question, part of the paragraph, three "
        "special tokens.",
        of_model=True,
    )
    doc_stride: int = flags.Group.TEXT.positive(
        128,
        "Word pieces between the starts of consecutive windows.",
        of_model=True,
    )
    max_query_length: int = flags.Group.TEXT.positive(
        64,
        "Maximum word pieces of a question; longer questions are truncated.",
        of_model=True,
    )

    def __post_init__(self) -> None:
        if self.max_seq_length <= self.max_query_length + NUM_SPECIAL_TOKENS:
            raise ValueError(
                "max_seq_length must be greater than max_query_length + "
                f"{NUM_SPECIAL_TOKENS}, or a long question leaves no room "
                f"for the paragraph; got {self.max_seq_length} and "
                f"{self.max_query_length}."
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SquadFeatures:
    """A window: a question and a part of its paragraph.

    Args:
        unique_id: identifies the window; starts at 1000000000.
        tokens: `n <= T` pieces, special tokens included.
        num_query_tokens: number of tokens of the question.
        input_ids: `[T]` int32, 0 after the `n`th.
        token_to_orig_map: `[n]` int32, index of the paragraph word of a piece;
            -1 for pieces outside of the paragraph.
        token_is_max_context: `[n]` bool, whether this window of the question
            shows the most context around a piece of the paragraph.
        start_position, end_position: first and last piece of the answer; 0 if
            the window does not contain all of it; None in prediction.
        is_impossible: as in the example.
    """

    unique_id: int
    tokens: tuple[str, ...]
    num_query_tokens: int
    input_ids: np.ndarray
    token_to_orig_map: np.ndarray
    token_is_max_context: np.ndarray
    start_position: int | None
    end_position: int | None
    is_impossible: bool

    @property
    def input_mask(self) -> np.ndarray:
        """`[T]` int32: 1 for a token, 0 for padding."""
        mask = np.zeros_like(self.input_ids)
        mask[: len(self.tokens)] = 1
        return mask

    @property
    def segment_ids(self) -> np.ndarray:
        """`[T]` int32: 1 for the part of the paragraph and its [SEP]."""
        segment_ids = np.zeros_like(self.input_ids)
        segment_ids[self.num_query_tokens + 2 : len(self.tokens)] = 1
        return segment_ids

    def record(self) -> dict[str, Sequence[int] | np.ndarray]:
        """Returns the features of a window under the names of the release."""
        record: dict[str, Sequence[int] | np.ndarray] = {
            "unique_ids": [self.unique_id],
            "input_ids": self.input_ids,
            "input_mask": self.input_mask,
            "segment_ids": self.segment_ids,
        }
        if self.start_position is not None and self.end_position is not None:
            # As released: is_impossible is written, but never read.
            record["start_positions"] = [self.start_position]
            record["end_positions"] = [self.end_position]
            record["is_impossible"] = [int(self.is_impossible)]
        return record


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Paragraph:
    pieces: tuple[str, ...]
    ids: np.ndarray  # [num pieces] int32
    word_of_piece: np.ndarray  # [num pieces] int32


@dataclasses.dataclass(frozen=True, kw_only=True)
class _EncodedQuestion:
    query: Sequence[str]  # Its pieces, after truncation.
    answer: tuple[int, int] | None  # Its first and last piece.
    is_impossible: bool


def convert_examples_to_features(
    examples: Sequence[question_files.SquadExample],
    tokenizer: tokenization.FullTokenizer,
    options: WindowOptions,
    *,
    progress: Progress | None = None,
    counts: sentence_pairs.TruncationCounts | None = None,
) -> Iterator[list[SquadFeatures]]:
    """Yields the windows of each example, in order.

    As released: a window without the answer is kept, with positions 0, and
    an example with an empty paragraph has no window.

    Args:
        examples: for training or prediction.
        tokenizer: text -> word pieces -> ids.
        options: for splitting paragraphs.
        progress: called during the work.
        counts: counts the questions and their word pieces.
    """
    pieces_of_word = functools.cache(tokenizer.tokenize)

    @functools.cache
    def paragraph_of(words: tuple[str, ...]) -> _Paragraph:
        parts = [pieces_of_word(word) for word in words]
        pieces = tuple(itertools.chain.from_iterable(parts))
        places = np.arange(len(words), dtype=np.int32)
        return _Paragraph(
            pieces=pieces,
            ids=_ids(pieces, tokenizer),
            word_of_piece=np.repeat(places, [len(part) for part in parts]),
        )

    unique_ids = itertools.count(_FIRST_UNIQUE_ID)
    for number, example in enumerate(examples, start=1):
        paragraph = paragraph_of(example.doc_tokens)
        pieces = tokenizer.tokenize(example.question_text)
        query = pieces[: options.max_query_length]
        if counts:
            counts.add(len(pieces), len(pieces) - len(query))
        question = _EncodedQuestion(
            query=query,
            answer=_answer_span(example, paragraph, tokenizer),
            is_impossible=example.is_impossible,
        )
        yield list(
            _windows(question, paragraph, options, tokenizer, unique_ids)
        )
        if progress:
            progress("windows", number, len(examples))


def improve_answer_span(
    doc_pieces: Sequence[str],
    span: tuple[int, int],
    answer_pieces: Sequence[str],
) -> tuple[int, int]:
    """Narrows a span of words to the pieces of the answer itself.

    "1895" in the word "(1895-1943)." becomes its own piece. If the span does
    not contain the pieces of the answer, it is unchanged.

    Args:
        doc_pieces: word pieces of the paragraph.
        span: first and last piece of the words of the answer.
        answer_pieces: word pieces of the text of the answer.

    Returns:
        First and last piece.
    """
    start, end = span
    answer = tuple(answer_pieces)
    if not answer:
        return span
    for first in range(start, end - len(answer) + 2):
        if tuple(doc_pieces[first : first + len(answer)]) == answer:
            return first, first + len(answer) - 1
    return span


def pieces_at(
    text: str,
    characters: tuple[int, int],
    tokenizer: tokenization.FullTokenizer,
) -> tuple[int, int] | None:
    """Finds the word pieces of some characters of a text.

    Args:
        text: the text.
        characters: begin and end of a part of it.
        tokenizer: text -> word pieces.

    Returns:
        First and last piece of the text that contain characters of the part;
        None if the tokenizer removes all of its characters.
    """
    basic, wordpiece = tokenizer.basic_tokenizer, tokenizer.wordpiece_tokenizer
    lengths: list[int] = []  # In characters of normalized text.
    for word in basic.tokenize(text):
        pieces = wordpiece.tokenize(word)
        if pieces == [wordpiece.unk_token]:
            lengths.append(len(word))
        else:
            lengths += [len(piece.removeprefix("##")) for piece in pieces]
    ends = np.cumsum(lengths, dtype=np.int64)
    # The beginning of a text is normalized to as many characters as within it.
    begin, end = (
        len("".join(basic.tokenize(text[:count]))) for count in characters
    )
    first = int(np.searchsorted(ends, begin, "right"))
    last = int(np.searchsorted(ends - lengths, end)) - 1
    return (first, last) if first <= last else None


def _windows(
    question: _EncodedQuestion,
    paragraph: _Paragraph,
    options: WindowOptions,
    tokenizer: tokenization.FullTokenizer,
    unique_ids: Iterator[int],
) -> Iterator[SquadFeatures]:
    query, answer = question.query, question.answer
    num_pieces, num_query_tokens = len(paragraph.pieces), len(query)
    offset = num_query_tokens + 2  # The place of the paragraph.
    begin = _ids(["[CLS]", *query, "[SEP]"], tokenizer)
    spans = document_spans(
        num_pieces,
        options.max_seq_length - num_query_tokens - NUM_SPECIAL_TOKENS,
        options.doc_stride,
    )
    best_span = max_context_spans(spans, num_pieces)
    for index, (start, length) in enumerate(spans):
        part = slice(start, start + length)
        places = slice(offset, offset + length)
        input_ids = np.zeros(options.max_seq_length, np.int32)
        input_ids[:offset] = begin
        input_ids[places] = paragraph.ids[part]
        input_ids[offset + length] = begin[-1]
        token_to_orig_map = np.full(offset + length + 1, -1, np.int32)
        token_to_orig_map[places] = paragraph.word_of_piece[part]
        is_max_context = np.zeros(offset + length + 1, bool)
        is_max_context[places] = best_span[part] == index
        positions: tuple[int | None, int | None] = (None, None)
        if answer is not None:
            positions = (0, 0)
            if start <= answer[0] and answer[1] < start + length:
                shift = offset - start
                positions = (answer[0] + shift, answer[1] + shift)
        yield SquadFeatures(
            unique_id=next(unique_ids),
            tokens=("[CLS]", *query, "[SEP]", *paragraph.pieces[part], "[SEP]"),
            num_query_tokens=num_query_tokens,
            input_ids=input_ids,
            token_to_orig_map=token_to_orig_map,
            token_is_max_context=is_max_context,
            start_position=positions[0],
            end_position=positions[1],
            is_impossible=question.is_impossible,
        )


def _answer_span(
    example: question_files.SquadExample,
    paragraph: _Paragraph,
    tokenizer: tokenization.FullTokenizer,
) -> tuple[int, int] | None:
    """Returns the first and last piece of an answer; None in prediction."""
    if example.start_position is None or example.end_position is None:
        return None
    if example.is_impossible:
        return -1, -1
    words = paragraph.word_of_piece
    start = int(np.searchsorted(words, example.start_position))
    end = int(np.searchsorted(words, example.end_position, "right")) - 1
    if example.answer_characters is not None:
        first, last = example.start_position, example.end_position
        text = " ".join(example.doc_tokens[first : last + 1])
        if span := pieces_at(text, example.answer_characters, tokenizer):
            return start + span[0], start + span[1]
    answer = tokenizer.tokenize(example.orig_answer_text or "")
    return improve_answer_span(paragraph.pieces, (start, end), answer)


def _ids(
    pieces: Sequence[str], tokenizer: tokenization.FullTokenizer
) -> np.ndarray:
    return np.array(tokenizer.convert_tokens_to_ids(pieces), np.int32)


def document_spans(
    num_pieces: int, max_pieces: int, doc_stride: int
) -> list[tuple[int, int]]:
    """Splits a paragraph into overlapping parts: (first piece, length) each."""
    # As released: a stride beyond the part is limited to its length.
    step = min(max_pieces, doc_stride)
    # The last part is the first one that ends with the paragraph.
    starts = range(0, max(num_pieces - max_pieces, 0) + step, step)
    if not num_pieces:
        return []
    return [(start, min(num_pieces - start, max_pieces)) for start in starts]


def max_context_spans(
    spans: Sequence[tuple[int, int]], num_pieces: int
) -> np.ndarray:
    """Finds the part with the most context around each piece.

    A piece near the edge of a part has little context there, and more in the
    part that overlaps. Only the part with the most may begin an answer at it.
    Context is the smaller number of pieces on either side, plus a hundredth of
    the part's length; the first part wins ties.

    In the paragraph "we went home and ate the bread that she baked", parts A, B
    and C have six pieces each, and begin at every second one. "ate", the fifth
    piece, is in all of them: A has four pieces before it and one after, B two
    and three, C none and five. The smaller numbers are 1, 2 and 0, so that B
    shows it best. The edges of the paragraph are left to the only part there.

        >>> max_context_spans([(0, 6), (2, 6), (4, 6)], 10).tolist()
        [0, 0, 0, 0, 1, 1, 2, 2, 2, 2]

    Args:
        spans: (first piece, length) of every part.
        num_pieces: of the paragraph.

    Returns:
        `[num_pieces]` int32, indices into `spans`; -1 for uncovered pieces.
    """
    best_span = np.full(num_pieces, -1, np.int32)
    best_score = np.full(num_pieces, -np.inf)
    for index, (start, length) in enumerate(spans):
        left = np.arange(length)
        score = np.minimum(left, length - 1 - left) + 0.01 * length
        part = slice(start, start + length)
        better = score > best_score[part]
        best_span[part][better] = index
        best_score[part][better] = score[better]
    return best_span


def record_features(
    max_seq_length: int, *, is_training: bool
) -> tuple[schema.Feature, ...]:
    """Returns the features of records of windows.

    Source: run_squad.py of the release.

    Args:
        max_seq_length: tokens of a window.
        is_training: whether the records hold the positions of the answer.
    """
    features = (
        schema.Feature(name="unique_ids", shape=(1,)),
        *schema.sequence_features((max_seq_length,)),
    )
    if not is_training:
        return features
    return (
        *features,
        schema.Feature(name="start_positions", shape=(1,)),
        schema.Feature(name="end_positions", shape=(1,)),
        schema.Feature(name="is_impossible", shape=(1,)),
    )
