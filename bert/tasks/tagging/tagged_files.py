"""The files of a tagging run: sentences, their tags in one scheme, labels."""

import collections
import dataclasses
import itertools
from collections.abc import Collection, Mapping

from absl import logging

from bert.files import messages
from bert.models import folder as folder_lib
from bert.tasks import task
from bert.tasks.tagging import (
    conll,
    entities,
    options,
    tag_schemes,
    tagger_labels,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggedFiles:
    """The files of a run.

    Attributes:
        by_split: the files; tags of entities are in IOB2.
        scheme: of the tags in the files, of `tag_schemes`.
        labels: of the model.
        context: in which the model reads sentences, of `options.CONTEXTS`.
    """

    by_split: Mapping[str, conll.ColumnFile]
    scheme: str
    labels: tagger_labels.TaggerLabels
    context: str


def read(
    file_options: options.TaggingFileOptions,
    splits: Collection[str],
    trained: folder_lib.ModelFolder | None,
) -> TaggedFiles:
    """Reads the files of splits, and decides scheme and labels.

    Args:
        file_options: the flags of the run.
        splits: `task.TRAIN`, `task.EVAL` and `task.PREDICT`, or some of them.
        trained: the model, if it is not trained now.

    Raises:
        OSError: a file cannot be opened.
        ValueError: a file is not given, is no column file, lacks tags or has a
            tag of another scheme; the training file is one sentence; or labels
            are not those of the model.
    """
    files = {split: _read_file(file_options, split) for split in splits}
    scheme = _find_scheme(file_options.scheme, files)
    converted = {
        split: _convert_tags(file, scheme)
        if file.tags or split != task.PREDICT
        else file
        for split, file in files.items()
    }
    train = converted.get(task.TRAIN)
    labels = _find_labels(trained, train, scheme)
    logging.info("Labels: %s", ", ".join(labels.names))
    for file in converted.values():
        _warn_of_unknown_types(file, labels)
    context = file_options.context
    if train is not None and not train.has_documents:
        context = options.SENTENCE
    return TaggedFiles(
        by_split=converted, scheme=scheme, labels=labels, context=context
    )


def _read_file(
    file_options: options.TaggingFileOptions, split: str
) -> conll.ColumnFile:
    columns = conll.parse_columns(file_options.columns)
    with_documents = file_options.context == options.DOCUMENT
    file = conll.read(
        options.find_file(file_options, split),
        columns,
        with_documents=with_documents,
    )
    first = file.sentences[0]
    columns_read = [first.words, *([first.tags] if first.tags else [])]
    rows = [" ".join(row) for row in zip(*columns_read, strict=True)]
    logging.info(
        "%s: %d sentence(s); the first has the words and tags %s.",
        file.path,
        len(file.sentences),
        messages.names(rows, 5),
    )
    if split == task.TRAIN:
        _check_training_file(file)
    if with_documents and not file.has_documents:
        logging.warning(
            "%s has no %s line: every sentence is read alone.",
            file.path,
            conll.DOCUMENT_START,
        )
    return file


def _check_training_file(file: conll.ColumnFile) -> None:
    sentences = file.sentences
    if file.tags and len(sentences) == 1:
        raise ValueError(
            f"{file.path}: must have an empty line after each sentence; it is "
            f"one sentence of {len(sentences[0].words)} words. {conll.FORMAT}"
        )
    words = {word: None for sentence in sentences for word in sentence.words}
    if not any(char.isalpha() for word in words for char in word):
        raise ValueError(
            f"{file.path}: --columns must give the column of words; none of "
            f"these has a letter: {messages.listed([*words], 4)}."
        )
    tags = list(itertools.chain(*file.tags))
    if tags and tags.count(tags[0]) == 1:
        logging.warning(
            "%s, line %d: no other word has the tag %s. If this row is a "
            "header, remove it.",
            file.path,
            sentences[0].lines[0],
            messages.short(tags[0]),
        )


def _convert_tags(file: conll.ColumnFile, scheme: str) -> conll.ColumnFile:
    """Converts tags that mark entities to IOB2; others stay as they are."""
    if not file.tags:
        raise ValueError(
            f"{file.path}: must have a column of tags; its rows have only a "
            f"word. {conll.FORMAT}"
        )
    if scheme == tag_schemes.WORDS:
        return file
    sentences = []
    for sentence, tags in zip(file.sentences, file.tags, strict=True):
        for tag, line in zip(tags, sentence.lines, strict=True):
            try:
                tag_schemes.split(tag, scheme)
            except ValueError as error:
                raise ValueError(
                    f"{file.path}, line {line}: {error}"
                ) from error
        converted = tag_schemes.to_iob2(tags, scheme)
        sentences.append(dataclasses.replace(sentence, tags=converted))
    return dataclasses.replace(file, sentences=tuple(sentences))


def _find_scheme(scheme: str, files: Mapping[str, conll.ColumnFile]) -> str:
    """Finds the scheme of all files: by flag, or that of the training file.

    Without training, and unless the model states it, the other files decide;
    `AUTO` stays if they have no tags.
    """
    train = files.get(task.TRAIN)
    deciding = [train] if train else list(files.values())
    tags = {tag for f in deciding for sentence in f.tags for tag in sentence}
    if scheme != tag_schemes.AUTO or not tags:
        return scheme
    return tag_schemes.decide(
        tags, source=", ".join(file.path for file in deciding if file.tags)
    )


def _find_labels(
    trained: folder_lib.ModelFolder | None,
    train: conll.ColumnFile | None,
    scheme: str,
) -> tagger_labels.TaggerLabels:
    """Returns the labels of the model, or those of the training file."""
    if trained is not None and trained.description.labels:
        labels = tagger_labels.of_model(
            trained.description.labels, trained.path, scheme
        )
        if not labels.have_entities and scheme in tag_schemes.OF_ENTITIES:
            raise ValueError(
                f"The labels of {trained.path} are of single words, and the "
                f"tags of the files mark entities (--scheme={scheme})."
            )
        return labels
    if train is None:
        folder = trained.path if trained else "No folder"
        raise ValueError(
            f"{folder} does not say the labels of its model. Add them to its "
            'task.json: {"labels": ["O", ...]}.'
        )
    labels = tagger_labels.of_tags(train.tags, scheme)
    if len(labels.names) < 2:
        raise ValueError(
            f"{train.path}: expected at least one entity, or two tags of "
            f"words; every tag is {labels.names[0]}. Check --columns."
        )
    return labels


def _warn_of_unknown_types(
    file: conll.ColumnFile, labels: tagger_labels.TaggerLabels
) -> None:
    if labels.have_entities:
        unit = "entities are of types"
        types = collections.Counter(
            entity.kind
            for tags in file.tags
            for entity in entities.find_entities(tags)
        )
    else:
        unit = "words have tags"
        types = collections.Counter(itertools.chain(*file.tags))
    known = {kind or entities.UNTYPED for kind in labels.types}
    if unknown := sorted(types.keys() - known):
        logging.warning(
            "%s: %d of %d %s that the model was not trained on (%s). They "
            "count as missed. It knows %s.",
            file.path,
            sum(types[kind] for kind in unknown),
            types.total(),
            unit,
            messages.listed(unknown),
            messages.listed(sorted(known)),
        )
