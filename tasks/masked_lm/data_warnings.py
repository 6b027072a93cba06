"""Warnings about text and data for pre-training, as sentences for their maker.

Each function returns sentences to be shown, or none: nothing here stops a run.
"""

from collections.abc import Iterable

from tasks.masked_lm import masked_pairs

# Half of the pairs have a random next when documents are long. A little over is
# usual, since a document's last sentence alone always gets one.
_MAX_RANDOM_NEXT_SHARE = 0.6
# In the released cased vocabularies 15 to 29 of 100 tokens hold a capital, in
# the uncased ones none.
_CASED_VOCAB_SHARE = 0.01
# Of the text, as shares of all of it.
_MAX_SINGLE_SENTENCE_DOCUMENTS = 0.5
_MAX_UNKNOWN_WORDS = 0.01
_MAX_REPEATED_LINES = 0.1
_MAX_PIECES_PER_WORD = 2.0
# English has about 5 % capitals; a text in all capitals, none in lower case.
_FEWEST_CAPITALS = 0.002
_MOST_CAPITALS = 0.5
# A paragraph on a line: sentences of more than half of a sequence.
_MAX_SENTENCE_SHARE = 0.5
_FEW_LETTERS = 1000
# Of sequences that often hold one sentence alone, whatever the documents.
_SHORT_SEQUENCE = 64


def prediction_warnings(options: masked_pairs.InstanceOptions) -> list[str]:
    """Checks that the number of predictions allows the share that is asked."""
    wanted = options.num_to_predict(options.max_seq_length)
    if wanted <= options.max_predictions_per_seq:
        return []
    return [
        f"max_predictions_per_seq={options.max_predictions_per_seq} is too "
        f"small for masked_lm_prob={options.masked_lm_prob}: a full "
        f"sequence of {options.max_seq_length} tokens asks for {wanted} "
        "predictions and gets fewer."
    ]


def corpus_warnings(num_documents: int) -> list[str]:
    """Checks that there are other documents to draw sentences from."""
    if num_documents != 1:
        return []
    return [
        "The corpus is one document, so random next sentences come from "
        "it too and the next sentence task means little. Put a blank line "
        "between documents."
    ]


def casing_warnings(
    vocab_words: Iterable[str], *, do_lower_case: bool
) -> list[str]:
    """Checks that the vocabulary was made for text of this casing."""
    words = [word for word in vocab_words if not word.startswith(("[", "<"))]
    capitals = sum(word != word.lower() for word in words)
    if do_lower_case and capitals > _CASED_VOCAB_SHARE * len(words):
        return [
            f"do_lower_case is True, but {capitals} of {len(words)} tokens of "
            "the vocabulary hold capitals, which lower-cased text never has: "
            "it looks cased. Pass --do_lower_case=False or another vocabulary."
        ]
    if words and not do_lower_case and not capitals:
        return [
            "do_lower_case is False, but no token of the vocabulary holds a "
            "capital: it looks uncased, and words with capitals become [UNK]. "
            "Pass --do_lower_case=True or another vocabulary."
        ]
    return []


def document_warnings(num_single: int, num_documents: int) -> list[str]:
    """Checks that documents have several sentences each."""
    if num_single <= _MAX_SINGLE_SENTENCE_DOCUMENTS * num_documents:
        return []
    return [
        f"{num_single:,} of {num_documents:,} documents are one line. A "
        "document is what stands between empty lines, one sentence a line: "
        "take away the empty lines between its sentences, and split paragraphs "
        "into sentences (python -m tools.prepare_corpus does)."
    ]


def sentence_warnings(median_pieces: float, max_seq_length: int) -> list[str]:
    """Checks that a line is a sentence, not a paragraph."""
    if median_pieces <= _MAX_SENTENCE_SHARE * max_seq_length:
        return []
    return [
        f"Half of the lines are longer than {median_pieces:.0f} word pieces, "
        f"of {max_seq_length} in a sequence: are they paragraphs? Of a line "
        "that does not fit, the rest is thrown away. Write one sentence a line "
        "(python -m tools.prepare_corpus splits text)."
    ]


def word_warnings(
    num_words: int, num_pieces: int, num_unknown: int
) -> list[str]:
    """Checks that the vocabulary fits the text."""
    warnings = []
    if num_unknown > _MAX_UNKNOWN_WORDS * num_words:
        warnings.append(
            f"{num_unknown / num_words:.1%} of the words become [UNK]: is this "
            "the vocabulary, and the casing, for this language? "
            "python -m tools.extend_vocab adds words, tools.learn_vocab learns "
            "a vocabulary."
        )
    if num_pieces > _MAX_PIECES_PER_WORD * num_words:
        warnings.append(
            f"Words are cut into {num_pieces / num_words:.1f} pieces each, "
            "English ones with the vocabulary of its model into 1.1: is this "
            "the vocabulary for this language?"
        )
    return warnings


def case_warnings(
    num_capitals: int, num_letters: int, *, do_lower_case: bool
) -> list[str]:
    """Checks that text for a cased model is written as people write."""
    share = num_capitals / max(1, num_letters)
    if do_lower_case or num_letters < _FEW_LETTERS:
        return []
    if share < _FEWEST_CAPITALS:
        return [
            f"Only {share:.2%} of the letters are capitals, but do_lower_case "
            "is False: the text seems lower-cased already, or its script has "
            "no capitals. A cased model learns no names from it."
        ]
    if share > _MOST_CAPITALS:
        return [
            f"{share:.0%} of the letters are capitals, but do_lower_case is "
            "False: a cased vocabulary has few words in capitals."
        ]
    return []


def repetition_warnings(num_repeated: int, num_lines: int) -> list[str]:
    """Checks that a text does not say the same again and again."""
    if num_repeated <= _MAX_REPEATED_LINES * num_lines:
        return []
    return [
        f"{num_repeated / num_lines:.0%} of the lines stood further up "
        "already: headers, menus, the same document twice? They are easy to "
        "learn and teach nothing."
    ]


def random_next_warnings(num_random_next: int, num_pairs: int) -> list[str]:
    """Checks that about half of the pairs have a random next sentence."""
    share = num_random_next / max(1, num_pairs)
    if share <= _MAX_RANDOM_NEXT_SHARE:
        return []
    return [
        f"{share:.0%} of the pairs have a random next sentence; it "
        "should be about half. Documents of one sentence always get one: put a "
        "blank line between documents only, not after each sentence, and write "
        "long paragraphs one sentence a line."
    ]


def balance_warnings(
    num_random_next: int, num_pairs: int, max_seq_length: int
) -> list[str]:
    """Does what `random_next_warnings` does, for sequences of any length."""
    warnings = random_next_warnings(num_random_next, num_pairs)
    if not warnings or max_seq_length > _SHORT_SEQUENCE:
        return warnings
    share = num_random_next / num_pairs
    return [
        f"{share:.0%} of the pairs have a random next sentence. Sequences of "
        f"{max_seq_length} word pieces often hold one sentence, which always "
        "gets a random next: little can be learnt from that task. Longer "
        "sequences bring it to about half."
    ]
