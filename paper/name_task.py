"""Creates a name tagging task from raw English text.

Names are the words that are usually capitalized, so that any text has labels. A
model of lower-cased text must recognize names by their context:

  python -m paper.name_task --input_file=held_out.txt --output_dir=names

The input is text of tools.prepare_corpus, held out from pre-training. The
outputs, train.txt and dev.txt, have a word and its tag a line, for run_ner.py.
"""

import collections
import dataclasses
import itertools
import os
import re
from collections.abc import Iterable, Sequence

from absl import logging

from commands import flags, program
from files import lines, paths, writing

_GROUP = flags.Group.FILES
_WORD = re.compile(r"\w+|[^\w\s]")
# After these, capitals are not evidence of a name.
_OPENING = frozenset(".!?:;\"'“”‘’(«—-")
_SHORTEST, _LONGEST = 5, 60
# A sentence with more names is a heading or a list.
_MOST_NAMES = 0.5
_DEV_EVERY = 8  # Documents.
_NAME = "NAME"

_Sentence = tuple[list[str], list[str]]  # Words and tags.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """The flags of this program."""

    input_file: str = _GROUP.required(
        "Text, a sentence a line, an empty line between documents: "
        "comma-separated names or globs."
    )
    output_dir: str = _GROUP.required("Folder for train.txt and dev.txt.")
    num_train: int = _GROUP.count(20_000, "Sentences at most.")
    num_dev: int = _GROUP.count(2_500, "Sentences at most.")


def run(options: Options) -> None:
    """Writes the files of the task.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: there is no suitable sentence for one of the files.
    """
    input_files = paths.expand(options.input_file)
    most = {"train": options.num_train, "dev": options.num_dev}
    outputs = {
        name: os.path.join(options.output_dir, f"{name}.txt") for name in most
    }
    writing.check_files(outputs.values(), input_files)
    documents = _read(input_files)
    usual = capitalized_words(itertools.chain.from_iterable(documents))
    suitable: dict[str, list[_Sentence]] = {name: [] for name in outputs}
    for number, document in enumerate(documents, start=1):
        name = "train" if number % _DEV_EVERY else "dev"
        for words in document:
            tags = tag_names(words, usual)
            num_names = sum(tag != "O" for tag in tags)
            is_short = _SHORTEST <= len(tags) <= _LONGEST
            if is_short and num_names <= _MOST_NAMES * len(tags):
                suitable[name].append((words, tags))
    for name, chosen in suitable.items():
        if not chosen:
            raise ValueError(
                f"{options.input_file}: must have sentences of {_SHORTEST} to "
                f"{_LONGEST} words in {_DEV_EVERY} documents or more; found "
                f"none for {name}.txt."
            )
    for name, path in outputs.items():
        chosen = suitable[name]
        # Sampled evenly, because a text may begin with a single author.
        step = max(1.0, len(chosen) / most[name])
        num_taken = min(most[name], len(chosen))
        with writing.whole_file(path) as file:
            for place in range(num_taken):
                words, tags = chosen[int(place * step)]
                file.writelines(
                    f"{word.lower()} {tag}\n"
                    for word, tag in zip(words, tags, strict=True)
                )
                file.write("\n")
        logging.info("Wrote %d sentences to %s", num_taken, path)


def capitalized_words(sentences: Iterable[Sequence[str]]) -> frozenset[str]:
    """Returns the lower-cased words that are mostly capitalized.

    Only words within a sentence, not at its start, are counted.
    """
    counts: collections.Counter = collections.Counter()
    for words in sentences:
        for before, word in itertools.pairwise(words):
            if before not in _OPENING:
                counts[word.lower()] += 1 if word[0].isupper() else -1
    return frozenset(word for word, count in counts.items() if count > 0)


def tag_names(words: Sequence[str], usual: frozenset[str]) -> list[str]:
    """Tags the names of a sentence in IOB2.

    Args:
        words: of the sentence.
        usual: the names in a sentence whose words are all capitalized.
    """
    tags: list[str] = []
    for place, word in enumerate(words):
        before = words[place - 1] if place else "."
        is_name = word[0].isupper() and word != "I"
        if is_name and before in _OPENING:
            is_name = word.lower() in usual
        inside = is_name and place > 0 and tags[-1] != "O"
        tags.append(f"{'I' if inside else 'B'}-{_NAME}" if is_name else "O")
    return tags


def _read(files: Sequence[str]) -> list[list[list[str]]]:
    """Reads documents as lists of sentences, split into words."""
    documents: list[list[list[str]]] = [[]]
    for path in files:
        for line in lines.read_lines(path):
            words = _WORD.findall(line)
            if words:
                documents[-1].append(words)
            elif documents[-1]:
                documents.append([])
        if documents[-1]:
            documents.append([])
    return [document for document in documents if document]


if __name__ == "__main__":
    program.start(Options, run)
