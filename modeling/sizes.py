"""How many parameters a network has, from its configuration alone."""

from modeling import config as config_lib


def encoder_parameters(config: config_lib.BertConfig) -> int:
    """Counts the parameters under `bert/`: embeddings, layers and pooler."""
    hidden = config.hidden_size
    entries = (
        config.vocab_size
        + config.max_position_embeddings
        + config.type_vocab_size
    )
    embeddings = entries * hidden + _norm(hidden)
    layers = config.num_hidden_layers * layer_parameters(config)
    return embeddings + layers + _dense(hidden, hidden)


def layer_parameters(config: config_lib.BertConfig) -> int:
    """Counts the parameters of one Transformer layer."""
    hidden, inner = config.hidden_size, config.intermediate_size
    attention = 4 * _dense(hidden, hidden) + _norm(hidden)
    feed_forward = _dense(hidden, inner) + _dense(inner, hidden)
    return attention + feed_forward + _norm(hidden)


def pretraining_parameters(config: config_lib.BertConfig) -> int:
    """Counts the parameters of the encoder and both pre-training heads.

    The word embeddings count once, although they are the output weights of
    the masked language model too.
    """
    hidden = config.hidden_size
    masked_lm = _dense(hidden, hidden) + _norm(hidden) + config.vocab_size
    next_sentence = _dense(hidden, 2)
    return encoder_parameters(config) + masked_lm + next_sentence


def _dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def _norm(size: int) -> int:
    return 2 * size
