"""The tasks whose models are asked and exported, by their name in task.json."""

from bert.tasks import asking
from bert.tasks.classification import asking as classification
from bert.tasks.embedding import asking as embedding
from bert.tasks.multiple_choice import asking as multiple_choice
from bert.tasks.pretraining import asking as pretraining
from bert.tasks.squad import asking as squad
from bert.tasks.tagging import asking as tagging

ENCODER = embedding.Encoder
PRETRAINED = pretraining.MaskFilling
ASKING: dict[str, type[asking.Asking]] = {
    kind.kind: kind
    for kind in (
        ENCODER,
        PRETRAINED,
        classification.Classification,
        multiple_choice.MultipleChoice,
        squad.QuestionAnswering,
        tagging.Tagging,
    )
}
