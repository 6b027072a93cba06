"""The files of a task that are there, and the records of their texts."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from files import paths
from tasks.classification import classification, sentence_pairs


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFile:
    """One file of a task.

    Args:
        task: the task.
        part: the file.
        data_dir: where it is looked for.
        packing: how its texts are fitted into the model.
        suffix: what its results are told apart by; "" for the release's file.
    """

    task: classification.Task
    part: classification.Part
    data_dir: str
    packing: sentence_pairs.Packing
    suffix: str

    def origin(self) -> dict[str, str]:
        """Says what its records depend on, apart from the vocabulary."""
        path = classification.find_file(
            self.data_dir, self.task.name, self.part.files
        )
        return {
            "data_sha256": paths.sha256(path) if path else "",
            "layout": str(self.part.layout),
            "labels": str(self.task.label_set),
            "packing": str(self.packing),
        }

    def records(
        self, tokenizer: sentence_pairs.Tokenizer, *, with_labels: bool
    ) -> Iterator[list[dict[str, Any]]]:
        """Yields the records of each example, one or, in windows, several.

        Raises:
            FileNotFoundError: the file is absent.
            ValueError: a row cannot be read; names file and line.
        """
        examples = classification.read_part(
            self.task, self.part, self.data_dir, with_labels=with_labels
        )
        for rows in sentence_pairs.convert_examples(
            examples, self.task.label_set, self.packing, tokenizer
        ):
            yield [sentence_pairs.to_record(row) for row in rows]


def find(
    task: classification.Task,
    parts: Sequence[classification.Part],
    data_dir: str,
    packing: sentence_pairs.Packing,
) -> list[TextFile]:
    """Lists the files of a task, those left out that need not be there.

    Args:
        task: the task.
        parts: of it, the release's file first.
        data_dir: where they are looked for.
        packing: how their texts are fitted into the model.

    Raises:
        FileNotFoundError: one that must be there is absent.
    """
    found = []
    for number, part in enumerate(parts):
        if classification.require_file(task, part, data_dir) is None:
            continue
        suffix = f"_{part.name.rpartition('_')[2]}" if number else ""
        found.append(
            TextFile(
                task=task,
                part=part,
                data_dir=data_dir,
                packing=packing,
                suffix=suffix,
            )
        )
    return found
