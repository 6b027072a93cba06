"""Sentences asked of a tagger, alone or in their document."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from absl import logging

from bert.models import description as description_lib
from bert.tasks import asking, sentence_pairs
from bert.tasks.tagging import conll, entities, options, tagger_labels, windows
from modeling import config as config_lib

if TYPE_CHECKING:
    import keras

    from vocab import graph_tokenizer

_WHITE_SPACE = re.compile("[ \t\r\f\v]+")  # Exported models split at it.


class Tagging(asking.Asking[windows.Window]):
    """Sentences, one a line; the answer has a tag for each word.

    With `context` `document`, each sentence is read with the lines around it.
    """

    kind = description_lib.TAGGING
    fields = ("text",)

    def __init__(self, model: asking.ServedModel):
        super().__init__(model)
        if self.reads_documents:
            logging.warning(
                "%s was trained on sentences in their documents "
                "(--context=document). Lines of one text are a document; a "
                "sentence alone, as in exports, may have other tags.",
                model.folder.path,
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The labels, in the order of the outputs."""
        return self.model.description.labels or ()

    @property
    def reads_documents(self) -> bool:
        """Whether the model was trained on sentences in their documents."""
        return self.model.description.stated("context") == options.DOCUMENT

    def make_network(self, config: config_lib.BertConfig) -> "keras.Model":
        from modeling import heads

        return heads.BertForTokenClassification(
            config, num_labels=len(self.names), dtype=asking.DTYPE
        )

    def outputs(
        self, network: "keras.Model", rows: asking.Tensors
    ) -> asking.Tensors:
        """Returns `probabilities` `[R, T, K]`."""
        import tensorflow as tf

        return {"probabilities": tf.nn.softmax(network(**rows)["logits"])}

    def _split(self, line: str) -> list[Any]:
        return [line]

    def encode(
        self,
        example: asking.Example,
        counts: sentence_pairs.TruncationCounts,
    ) -> list[asking.Row[windows.Window]]:
        length = self.model.max_seq_length
        sentences = [
            conll.Sentence(
                words=words,
                tags=None,
                lines=(),
                document=0 if self.reads_documents else number,
            )
            for number, words in enumerate(_sentences(example))
        ]
        sentence_windows = windows.make_windows(
            sentences,
            [[0] * len(sentence.words) for sentence in sentences],
            self.model.tokenizer,
            length,
        )
        return [
            asking.Row.of(window.record(length), window)
            for window in itertools.chain.from_iterable(sentence_windows)
        ]

    def decode(
        self,
        example: asking.Example,
        rows: Sequence[asking.Row[windows.Window]],
        outputs: asking.Outputs,
    ) -> asking.Answer:
        tags = [
            self.names[number]
            for row, output in zip(rows, outputs, strict=True)
            for number in output["probabilities"][
                list(row.source.positions)
            ].argmax(axis=-1)
        ]
        labels = tagger_labels.of_model(
            self.names,
            self.model.folder.path,
            self.model.description.stated("scheme"),
        )
        words: list[str] = []
        marked = []
        for sentence in _sentences(example):
            start = len(words)
            words += sentence
            if not labels.have_entities:
                continue
            for entity in entities.find_entities(
                labels.decode(tags[start : len(words)])
            ):
                first, stop = start + entity.start, start + entity.end
                marked.append(
                    {
                        "type": entity.kind,
                        "text": " ".join(words[first:stop]),
                        "start": first,
                        "end": stop,
                    }
                )
        answer: asking.Answer = {"words": words, "tags": tags}
        if labels.have_entities:
            answer["entities"] = marked
        return answer

    def lines(
        self, example: asking.Example, answer: asking.Answer
    ) -> list[str]:
        if "entities" not in answer:
            pairs = zip(answer["tags"], answer["words"], strict=True)
            return [f"  {tag}  {word}" for tag, word in pairs]
        rows = [
            f"  {entity['type']}  {entity['text']}"
            for entity in answer["entities"]
        ]
        return [row.rstrip() for row in rows] or ["  (no entity)"]

    def signatures(
        self,
        compute: asking.Compute,
        tokenizer: "graph_tokenizer.GraphTokenizer",
    ) -> asking.Signatures:
        import tensorflow as tf

        from bert.tasks import signatures, token_rows
        from vocab import graph_tokenizer

        if self.reads_documents:
            logging.warning(
                "%s was trained on documents; the export reads each sentence "
                "alone, so that its tags differ from those of run_ner.py.",
                self.model.folder.path,
            )
        names = tf.constant(self.names)  # [K]
        unknown = tokenizer.id_of("[UNK]")
        longest = self.model.max_seq_length

        def best(probabilities: tf.Tensor) -> dict[str, tf.Tensor]:
            return {
                "tags": tf.gather(names, tf.argmax(probabilities, axis=-1)),
                "probabilities": tf.reduce_max(probabilities, axis=-1),
            }

        @signatures.text_signature(text=signatures.TEXTS)
        def tags(text: tf.Tensor) -> asking.Tensors:
            # Only ASCII white space splits; invalid bytes alone are no word.
            words = tf.strings.split(graph_tokenizer.drop_invalid_utf8(text))
            pieces = tokenizer.tokenize(words.values)  # [W, (pieces)]
            is_empty = tf.cast(pieces.row_lengths() == 0, tf.int64)
            pieces = tf.concat(
                [pieces, token_rows.repeat(unknown, is_empty)], axis=1
            )
            tokens = words.with_values(pieces).merge_dims(1, 2)  # [B, (tokens)]
            rows = token_rows.join(tokens, tokens[:, :0], tokenizer)
            tf.debugging.assert_less_equal(
                tf.shape(rows["input_ids"])[1],
                longest,
                f"A sentence must have at most {longest} word pieces with "
                "[CLS] and [SEP]",
            )
            sentence = words.value_rowids()  # [W]
            # The label of a word is that of its first piece, after [CLS].
            first = pieces.row_starts() - tf.gather(
                tokens.row_starts(), sentence
            )
            place = tf.stack([sentence, 1 + first], axis=1)
            labels = best(tf.gather_nd(compute(**rows)["probabilities"], place))
            return {
                "words": words.to_tensor(),
                **{
                    k: words.with_values(v).to_tensor()
                    for k, v in labels.items()
                },
            }

        def of_rows(**rows: tf.Tensor) -> asking.Tensors:
            return best(compute(**rows)["probabilities"])

        return {
            signatures.DEFAULT: tags,
            signatures.IDS: signatures.of_ids(of_rows, self),
        }


def _sentences(example: asking.Example) -> Iterator[tuple[str, ...]]:
    """Yields the words of each line that has words."""
    for line in example["text"].split("\n"):
        if words := tuple(filter(None, _WHITE_SPACE.split(line))):
            yield words
