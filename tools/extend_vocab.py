"""Adds words of your own field to the [unused] entries of a vocabulary.

Example, for medicine:

  python -m tools.extend_vocab --vocab_file=$BERT/vocab.txt \\
    --input_file=medicine.txt --output_file=medicine_vocab.txt \\
    --init_checkpoint=$BERT/bert_model.ckpt \\
    --output_checkpoint=medicine_start/bert_model.ckpt

The tool adds the words that the vocabulary splits into the most pieces in all
of the text. No id changes, so the released model still fits. With a checkpoint,
the embedding of a new word starts as the mean of its pieces, not at random.
Docs: docs/continued_pretraining.md.
"""

import dataclasses
import itertools
import os
import re
from collections.abc import Mapping

import numpy as np
from absl import logging

from bert.commands import flags, program
from bert.files import lines, messages, paths, run_files, writing
from bert.models import comparison, flag_defaults
from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.training import options as training_options
from modeling import checkpoints
from modeling import config as config_lib
from vocab import learning, tokenization

_VOCABULARY = flags.Heading("Vocabulary")
_EMBEDDINGS = "bert/embeddings/word_embeddings"
_OUTPUT_BIAS = "cls/predictions/output_bias"
_FREE = re.compile(r"\[unused\d+\]")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(training_options.TokenizerOptions):
    """The flags of this tool; see --help."""

    vocab_file: flags.Path = flags.Group.FILES.flag(
        None, "Vocabulary to extend; by default that of --init_checkpoint."
    )
    output_file: flags.Path = flags.Group.FILES.required(
        "Vocabulary to write, of the same size."
    )
    input_file: flags.Path = flags.Group.FILES.required(
        "Text of the field, UTF-8: globs, comma-separated. A list of words is "
        "a text too: pass --min_count=1."
    )
    init_checkpoint: flags.Path | None = flags.Group.MODEL.optional(
        "Model to copy; a new word gets the mean embedding of its pieces."
    )
    output_checkpoint: flags.Path | None = flags.Group.MODEL.optional(
        "Prefix of the checkpoint to write, in a new folder, which also gets "
        "the configuration, the vocabulary and task.json."
    )
    num_words: int = _VOCABULARY.positive(
        500, "Maximum number of words; limited by the [unused] entries."
    )
    min_count: int = _VOCABULARY.positive(
        20, "Skip words with fewer occurrences: a model could not learn them."
    )

    def __post_init__(self) -> None:
        if bool(self.init_checkpoint) != bool(self.output_checkpoint):
            raise ValueError(
                "Pass --init_checkpoint and --output_checkpoint together."
            )


def choose_words(
    counts: Mapping[str, int],
    tokenizer: tokenization.WordpieceTokenizer,
    *,
    num_words: int,
    min_count: int,
) -> list[str]:
    """Chooses the words that save a text the most pieces.

    Words without a letter, such as numbers, are not chosen. An unknown word
    counts as if it were split into letters.

    Args:
        counts: of words, as from `BasicTokenizer`.
        tokenizer: of the old vocabulary.
        num_words: the number of words to choose at most.
        min_count: the occurrences that a word must have.

    Returns:
        The words by pieces saved, most first, then by the alphabet.
    """
    saved = {}
    for word, count in counts.items():
        if (
            count >= min_count
            and word not in tokenizer.vocab
            and any(map(str.isalpha, word))
            and len(word) <= tokenizer.max_input_chars_per_word
        ):
            pieces = tokenizer.tokenize(word)
            is_unknown = pieces == ["[UNK]"]
            saved[word] = count * (len(word) if is_unknown else len(pieces) - 1)
    return sorted(saved, key=lambda word: (-saved[word], word))[:num_words]


def _write_model(
    model: folder_lib.ModelFolder,
    config: config_lib.BertConfig,
    target: str,
    tokenizer: tokenization.FullTokenizer,
    places: Mapping[int, str],
    vocabulary: str,
) -> None:
    """Writes a model whose rows of new words are the mean of their pieces'."""
    source = model.checkpoint or model.name
    names = checkpoints.list_variables(source)
    tensors = checkpoints.read(
        source,
        [n for n in names if not checkpoints.is_training_state(n, names)],
    )
    for name in {_EMBEDDINGS, _OUTPUT_BIAS} & tensors.keys():
        rows = tensors[name] = np.array(tensors[name])  # [V, D] or [V]
        for place, word in places.items():
            # No piece of a word is an [unused] entry.
            pieces = tokenizer.wordpiece_tokenizer.tokenize(word)
            ids = tokenizer.convert_tokens_to_ids(pieces)
            rows[place] = rows[ids].mean(axis=0)
    folder, name = os.path.split(target)
    with writing.whole_folder(folder) as copy:
        checkpoints.save(os.path.join(copy, name), tensors)
        vocab_file = os.path.join(copy, run_files.VOCABULARY)
        with writing.whole_file(vocab_file) as file:
            file.write(vocabulary)
        vocab = tokenization.load_vocab(vocab_file)
        folder_lib.write(
            copy,
            config,
            dataclasses.replace(
                model.description, vocab_sha256=tokenization.vocab_sha256(vocab)
            ),
        )


def run(options: Options) -> None:
    """Writes the vocabulary, and the model if there is one.

    Raises:
        OSError: a file cannot be read or written, or the folder of the model
            exists.
        ValueError: the vocabulary is not the model's.
    """
    source, target = options.init_checkpoint, options.output_checkpoint
    text_files = paths.expand(options.input_file)
    if source and target:
        folder = os.path.dirname(target)
        if not folder or os.path.lexists(folder):
            raise FileExistsError(
                "--output_checkpoint must be in a new folder, such as "
                f"start/bert_model.ckpt; got {target}."
            )
    model = folder_lib.ModelFolder.open(source or options.vocab_file)
    options = flag_defaults.fill(options, model, flags.given(), only_text=True)
    entries = tokenization.read_entries(options.vocab_file)
    inputs = [options.vocab_file, *text_files]
    writing.check_files([options.output_file], inputs)
    tokenizer = tokenization.FullTokenizer(
        options.vocab_file, options.do_lower_case, options.strip_accents
    )
    config = model.config
    if source:
        comparison.check_init(
            model,
            description_lib.Description(
                do_lower_case=options.do_lower_case,
                strip_accents=options.strips_accents,
            ),
            options.vocab_file,
        )
        config = config_lib.BertConfig.from_checkpoint(model.path)
        config.check_vocab_size(tokenizer.vocab_size, options.vocab_file)
    places = [i for i, e in enumerate(entries) if _FREE.fullmatch(e)]
    counts = learning.count_words(
        itertools.chain.from_iterable(map(lines.read_lines, text_files)),
        learning.Options(
            do_lower_case=options.do_lower_case,
            strip_accents=options.strip_accents,
        ),
    )
    words = choose_words(
        counts.words,
        tokenizer.wordpiece_tokenizer,
        num_words=min(options.num_words, len(places)),
        min_count=options.min_count,
    )
    new = dict(zip(places, words, strict=False))
    filled = [new.get(i, entry) for i, entry in enumerate(entries)]
    vocabulary = "".join(f"{entry}\n" for entry in filled)
    if config and target:
        # First: the output file may be in its folder, which must be new.
        _write_model(model, config, target, tokenizer, new, vocabulary)
    with writing.whole_file(options.output_file) as file:
        file.write(vocabulary)
    logging.info(
        "Wrote %s with %d new words: %s. %d [unused] entries are left.",
        options.output_file,
        len(words),
        messages.names(words),
        len(places) - len(words),
    )


if __name__ == "__main__":
    program.start(Options, run)
