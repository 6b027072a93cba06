"""Models to ask that have the golden vocabulary and no weights."""

from bert.models import description as description_lib
from bert.models import folder as folder_lib
from bert.tasks import asking, registry
from modeling import config as config_lib
from tests.support import locations
from vocab import tokenization


def served(
    vocab_file=locations.VOCAB_FILE, do_lower_case=True, sizes=None, **entries
):
    """Returns a model; `entries` are those of its task.json."""
    tokenizer = tokenization.FullTokenizer(vocab_file, do_lower_case)
    config = config_lib.BertConfig.from_json_file(locations.CONFIG_FILE)
    values = {**config.to_dict(), "vocab_size": tokenizer.vocab_size}
    return asking.ServedModel(
        folder=folder_lib.ModelFolder.open(
            str(locations.INPUTS), is_folder=True
        ),
        checkpoint="",
        variables=(),
        config=config_lib.BertConfig.from_dict({**values, **(sizes or {})}),
        tokenizer=tokenizer,
        description=description_lib.Description.from_json(entries),
    )


def asked(kind, **entries):
    """Returns how texts are asked of a model of a task."""
    return registry.ASKING[kind](served(**entries))
