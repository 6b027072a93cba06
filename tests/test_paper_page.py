"""The checks of docs/paper.md, and that it leads to what exists."""

import ast
import math
import re
from fractions import Fraction

import numpy as np
import pytest
import tensorflow as tf

import create_pretraining_data
import run_classifier
from bert.records import schema
from bert.tasks import sentence_pairs
from bert.tasks.pretraining import objective as pretraining_objective
from bert.tasks.squad import answer_ranking, question_files, window_features
from bert.tasks.tagging import conll, windows
from bert.training import optimization
from modeling import bert, checkpoints, heads, layers, losses
from modeling import config as config_lib
from paper import plans, scales, tables
from tests.support import (
    locations,
    programs,
    toy_config,
    toy_vocabulary,
)
from tools import learn_vocab, prepare_corpus, python_docs
from vocab import tokenization

_TEXT = (locations.ROOT / "docs/paper.md").read_text(encoding="utf-8")
_BASE, _LARGE = (
    config_lib.BertConfig.from_json_file(
        str(locations.ROOT / f"modeling/configs/bert_{size}_uncased.json")
    )
    for size in ("base", "large")
)


def _own_checks():
    return {name for name in globals() if name.startswith("test_")}


def test_every_check_on_the_page_is_here():
    named = set(re.findall(r"`(test_\w+)`", _TEXT))
    of_the_page = {
        "test_every_check_on_the_page_is_here",
        "test_every_place_on_the_page_exists",
    }
    assert named == _own_checks() - of_the_page


def test_every_place_on_the_page_exists():
    places = re.findall(r"`([\w/]+\.py):(\w+)`", _TEXT)
    assert len(places) > 20
    for path, name in places:
        tree = ast.parse((locations.ROOT / path).read_text(encoding="utf-8"))
        kinds = ast.FunctionDef | ast.ClassDef
        found = {n.name for n in ast.walk(tree) if isinstance(n, kinds)}
        assert name in found, (path, name)


def _commands(*names):
    """Returns the commands of tables at full scale, as texts."""
    plan = plans.Plan(scales.FULL)
    for name in names:
        tables.ALL[name](plan)
    return [" ".join(command.words) for command in plan.commands]


# --------------------------------------------------------------- The results


def test_abstract():
    def paper(table, row, column):
        cells = tables.ALL[table](plans.Plan(scales.FULL)).cells
        (number,) = (
            cell.paper
            for cell in cells
            if (cell.row, cell.column.name) == (row, column)
        )
        return number

    gpt = "OpenAI GPT"
    ensemble = "large + TriviaQA, ensemble"
    nlnet = "nlnet, ensemble, first of the leaderboard"
    mrc = "MIR-MRC (F-Net), first of the leaderboard"
    for table, column, (ours, score), best, margin in (
        ("table-1", "leaderboard", ("large", 80.5), gpt, 7.7),
        ("table-1", "MNLI-m", ("large", 86.7), gpt, 4.6),
        ("table-2", "test F1", (ensemble, 93.2), nlnet, 1.5),
        ("table-3", "test F1", ("large", 83.1), mrc, 5.1),
        ("table-1", "average", ("base", 79.6), gpt, 4.5),
        ("table-1", "average", ("large", 82.1), gpt, 7.0),
    ):
        assert paper(table, ours, column) == score
        assert round(score - paper(table, best, column), 1) == margin
        assert f"{score}" in _TEXT and f"{margin}" in _TEXT


# ----------------------------------------------------------------- The model


def test_sizes():
    for config, sizes in ((_BASE, (12, 768, 12)), (_LARGE, (24, 1024, 16))):
        assert sizes == (
            config.num_hidden_layers,
            config.hidden_size,
            config.num_attention_heads,
        )
        assert config.intermediate_size == 4 * config.hidden_size
        assert config.max_position_embeddings == 512
        assert config.vocab_size == 30_522
        assert config.hidden_dropout_prob == 0.1
        assert config.attention_probs_dropout_prob == 0.1
        assert config.hidden_act == "gelu"
    (smallest, *_, largest) = scales.FULL.networks
    assert smallest.startswith("L-3 ") and largest.startswith("L-24 ")


def _num_parameters(config):
    width, inner = config.hidden_size, config.intermediate_size
    norm = 2 * width
    dense = width * width + width
    words = config.vocab_size + config.max_position_embeddings
    embeddings = (words + config.type_vocab_size) * width + norm
    feed_forward = width * inner + inner + inner * width + width
    layer = 4 * dense + norm + feed_forward + norm
    pooler = dense
    return embeddings + config.num_hidden_layers * layer + pooler


def test_parameters():
    toy = toy_config.config()
    model = bert.BertModel(toy)
    assert model.count_params() == _num_parameters(toy)
    assert _num_parameters(_BASE) == 109_482_240
    assert _num_parameters(_LARGE) == 335_141_888
    assert "109,482,240 and 335,141,888" in _TEXT


def test_causal_attention():
    ids = tf.constant([[2, 5, 9, 7]])
    changed = tf.constant([[2, 5, 9, 8]])  # Another last token.
    for causal, is_same in ((True, True), (False, False)):
        model = bert.BertModel(toy_config.config(), causal=causal)
        one, other = (
            model(x, tf.ones_like(x))["sequence_output"][0, :3].numpy()
            for x in (ids, changed)
        )
        assert np.allclose(one, other, atol=1e-6) == is_same


def test_word_pieces():
    vocab = ["[UNK]", "play", "##ing", "##s"]
    split = tokenization.WordpieceTokenizer(
        {piece: i for i, piece in enumerate(vocab)}
    )
    assert split.tokenize("playing") == ["play", "##ing"]
    assert split.tokenize("talks") == ["[UNK]"]


def test_input_tokens():
    tokens, segments = sentence_pairs.join(["my", "dog"], ["he", "likes"])
    assert tokens == ["[CLS]", "my", "dog", "[SEP]", "he", "likes", "[SEP]"]
    assert segments == [0, 0, 0, 0, 1, 1, 1]


def test_sum_of_embeddings():
    model = bert.BertModel(toy_config.config())
    ids, segments = tf.constant([[2, 5, 9]]), tf.constant([[0, 0, 1]])
    outputs = model(ids, tf.ones_like(ids), segments)
    values = {
        name.removeprefix("bert/embeddings/"): variable.numpy()
        for name, variable in checkpoints.variables_by_name(model).items()
    }
    total = (
        values["word_embeddings"][[2, 5, 9]]
        + values["token_type_embeddings"][[0, 0, 1]]
        + values["position_embeddings"][:3]
    )
    centered = total - total.mean(axis=-1, keepdims=True)
    normed = centered / np.sqrt(total.var(axis=-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(
        outputs["embedding_output"][0], normed, atol=1e-4
    )


# -------------------------------------------------------------- Pre-training


@pytest.fixture(name="records", scope="module")
def _records(tmp_path_factory):
    """Makes records as the quick start does, as arrays by name."""
    folder = tmp_path_factory.mktemp("records")
    docs, text, vocab, path = (
        str(folder / name)
        for name in ("docs", "text.txt", "vocab.txt", "text.tfrecord")
    )
    length, most = 64, 10
    python_docs.run(python_docs.Options(output_dir=docs))
    prepare_corpus.run(
        programs.parse(
            prepare_corpus.Options,
            input_format="jsonl",
            input_file=f"{docs}/docs.jsonl",
            output_file=text,
            holdout_every=10,
            holdout_file=str(folder / "heldout.txt"),
        )
    )
    learn_vocab.run(
        programs.parse(
            learn_vocab.Options,
            input_file=text,
            output_file=vocab,
            vocab_size=4000,
        )
    )
    create_pretraining_data.run(
        programs.parse(
            create_pretraining_data.Options,
            input_file=text,
            output_file=path,
            vocab_file=vocab,
            max_seq_length=length,
            max_predictions_per_seq=most,
            dupe_factor=2,  # 10 in the quick start.
        )
    )
    serialized = list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    parsed = tf.io.parse_example(
        serialized,
        {
            feature.name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
            for feature in schema.pretraining_features(length, most)
        },
    )
    arrays = {name: value.numpy() for name, value in parsed.items()}
    return arrays | {"mask_id": tokenization.load_vocab(vocab)["[MASK]"]}


def _measured(row):
    """Returns the percentages of a row of the page's table of records."""
    (line,) = re.findall(rf"^\| {re.escape(row)} \|.*\| (.*)% \|$", _TEXT, re.M)
    return [float(number) for number in line.split(",")]


def _is_share(count, total, share, num_deviations=4):
    deviation = math.sqrt(total * share * (1 - share))
    return abs(count - total * share) < num_deviations * deviation


def test_share_of_predictions(records):
    num_tokens = records["input_mask"].sum(axis=1)
    counts = records["masked_lm_weights"].sum(axis=1)
    expected = np.clip(np.round(num_tokens * 0.15), 1, 10)
    np.testing.assert_array_equal(counts, expected)
    assert num_tokens.max() == records["input_ids"].shape[1]
    # Python's documentation differs with its version.
    share = 100 * counts.sum() / num_tokens.sum()
    assert _measured("predicted, of all tokens") == pytest.approx(
        [share], abs=0.3
    )
    assert not create_pretraining_data.Options.do_whole_word_mask


def test_masking_shares(records):
    rows, places = np.nonzero(records["masked_lm_weights"])
    shown = records["input_ids"][
        rows, records["masked_lm_positions"][rows, places]
    ]
    words = records["masked_lm_ids"][rows, places]
    total = len(rows)
    num_masks = (shown == records["mask_id"]).sum()
    num_kept = (shown == words).sum()
    assert _is_share(num_masks, total, 0.8)
    # A random word may be the same.
    assert _is_share(num_kept, total, 0.1 + 0.1 / 4000)
    shares = [num_masks, total - num_masks - num_kept, num_kept]
    assert _measured("of these: [MASK], random, unchanged") == pytest.approx(
        [100 * count / total for count in shares], abs=0.5
    )


def test_next_sentence_shares(records):
    share = 100 * records["next_sentence_labels"].mean()
    assert share > 50  # A single sentence always gets a random one.
    assert _measured("pairs with a random second text") == pytest.approx(
        [share], abs=2
    )


def test_masked_lm_loss():
    logits = np.random.default_rng(1).normal(size=(3, 7)).astype(np.float32)
    words, weights = np.array([2, 0, 6]), np.array([1.0, 1.0, 0.0], np.float32)
    exponents = np.exp(logits)
    log_softmax = np.log(exponents / exponents.sum(axis=-1, keepdims=True))
    nats = -log_softmax[np.arange(3), words]
    found = losses.masked_lm_loss(
        losses.cross_entropy(tf.constant(logits), tf.constant(words)),
        tf.constant(weights),
        tf.constant(2.0),
    )
    assert float(found) == pytest.approx(nats[:2].sum() / (2 + 1e-5), rel=1e-5)


def test_next_sentence_loss():
    logits = np.array([[0.3, -1.1]], np.float32)
    found = losses.cross_entropy(tf.constant(logits), tf.constant([1]))
    logistic = 1 / (1 + np.exp(-(logits[0, 1] - logits[0, 0])))
    assert float(found[0]) == pytest.approx(-np.log(logistic), rel=1e-5)


def test_loss_is_a_sum():
    with np.load(locations.GOLDEN / "model/forward_gelu.npz") as arrays:
        golden = {
            name.removeprefix("padded/"): arrays[name]
            for name in arrays.files
            if name.startswith("padded/")
        }
    features = {
        name.removeprefix("in/"): tf.constant(value)
        for name, value in golden.items()
        if name.startswith("in/")
    }
    config = config_lib.BertConfig.from_json_file(locations.CONFIG_FILE)
    model = heads.BertForPreTraining(config)
    checkpoints.load(model, str(locations.CHECKPOINT))
    objective = pretraining_objective.PretrainingObjective(model, "mlm_nsp")
    parts = objective.outcome(features, objective.denominators(features), None)
    assert set(parts.losses) == {"masked_lm_loss", "next_sentence_loss"}
    total = sum(float(value) for value in parts.losses.values())
    assert total == pytest.approx(float(golden["out/total_loss"]), abs=1e-4)


def test_words_and_epochs():
    first, last = scales.FULL.phases
    assert (first.max_seq_length, last.max_seq_length) == (128, 512)
    steps = first.num_steps + last.num_steps
    assert Fraction(first.num_steps, steps) == Fraction(9, 10)
    assert (last.batch_size, steps) == (256, 1_000_000)
    tokens = last.batch_size * last.max_seq_length
    assert tokens == 131_072
    words = 800e6 + 2_500e6
    assert words == 3.3e9
    assert round(tokens * steps / words, 1) == 39.7


def test_optimizer():
    adam = optimization.AdamOptions()
    assert (adam.beta_1, adam.beta_2) == (0.9, 0.999)
    assert adam.weight_decay_rate == 0.01
    scale = scales.FULL
    assert (scale.learning_rate, scale.num_warmup_steps) == (1e-4, 10_000)
    schedule = optimization.Schedule(
        init_lr=1e-4, num_train_steps=1_000_000, num_warmup_steps=10_000
    )
    rates = schedule.learning_rate(np.array([5_000, 505_000, 1_000_000]))
    np.testing.assert_allclose(rates, [5e-5, 4.95e-5, 0.0], rtol=1e-5)


def test_gelu():
    x = np.linspace(-3, 3, 13).astype(np.float32)
    tanh = (
        0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    )
    found = layers.bias_activation(
        tf.constant(x)[tf.newaxis], tf.zeros(13), activation="gelu"
    )
    np.testing.assert_allclose(found[0], tanh, atol=1e-6)


# --------------------------------------------------------------- Fine-tuning


def test_eleven_tasks():
    plan = plans.Plan(scales.FULL)
    glue = {
        cell.column.task.name
        for cell in tables.table_1(plan).cells
        if cell.column.task
    }
    others = {"SQuAD-1.1": tables.table_2, "SQuAD-2.0": tables.table_3}
    others["SWAG"] = tables.table_4
    for name, make in others.items():
        named = {c.column.task.name for c in make(plan).cells if c.column.task}
        assert named == {name}
    named = {"MNLI", "QQP", "QNLI", "SST-2", "CoLA", "STS-B", "MRPC", "RTE"}
    assert glue - {"WNLI"} == named
    assert len(named) + len(others) == 11


def test_fine_tuning_settings():
    tuning = scales.FULL.tuning
    assert tuning["glue"]["learning_rates"] == (5e-5, 4e-5, 3e-5, 2e-5)
    for name, sizes in {
        "glue": (32, 3),
        "squad-1.1": (32, 3),
        "squad-2.0": (48, 2),
        "swag": (16, 3),
    }.items():
        flags = tuning[name]
        assert (flags["train_batch_size"], flags["num_train_epochs"]) == sizes
    assert tuning["squad-1.1"]["learning_rate"] == 5e-5
    assert tuning["squad-2.0"]["learning_rate"] == 5e-5
    assert tuning["swag"]["learning_rates"] == 2e-5


def test_grid():
    options = programs.parse(
        run_classifier.Options,
        "--do_train",
        "--do_eval",
        data_dir="data",
        output_dir="out",
        task_name="MRPC",
        train_batch_sizes="16,32",
        learning_rates="5e-5,3e-5,2e-5",
        num_train_epochs=4,
    )
    assert [tuple(setting.values()) for setting in options.grid] == [
        (size, rate) for size in (16, 32) for rate in (5e-5, 3e-5, 2e-5)
    ]


def test_restarts():
    large = [x for x in _commands("table-1") if "L-24" in x]
    assert large and all("--num_trials=5" in x for x in large)
    sizes = [x for x in _commands("table-6") if x.startswith("run_classifier")]
    assert sizes and all("--num_trials=5" in x for x in sizes)


def test_ensembles():
    commands = _commands("table-2")
    joined = [x for x in commands if "tools.evaluate_squad" in x]
    assert {x.count("nbest_predictions.json") for x in joined} == {7}
    assert any("tools.convert_triviaqa" in x for x in commands)


def test_new_parameters():
    config = toy_config.config()
    width = config.hidden_size
    encoder = bert.BertModel(config).count_params()
    for model, count in (
        (
            heads.BertForSequenceClassification(config, num_labels=3),
            3 * width + 3,
        ),
        (heads.BertForQuestionAnswering(config), 2 * width + 2),
        (heads.BertForMultipleChoice(config), width),
    ):
        assert model.count_params() - encoder == count


def test_span_loss():
    start = np.array([[0.5, 2.0, -1.0]], np.float32)
    end = np.array([[0.1, 0.2, 0.3]], np.float32)
    found = losses.span_cross_entropy(
        (tf.constant(start), tf.constant(end)),
        (tf.constant([1]), tf.constant([2])),
    )
    total = sum(
        np.log(np.exp(logits).sum()) - logits[0, place]
        for logits, place in ((start, 1), (end, 2))
    )
    assert float(found[0]) == pytest.approx(total / 2, rel=1e-5)


def test_best_span(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"qabc"]
    tokenizer = toy_vocabulary.tokenizer(tmp_path, pieces)
    ((window,),) = window_features.convert_examples_to_features(
        [
            question_files.SquadExample(
                qas_id="1", question_text="q", doc_tokens=("a", "b", "c")
            )
        ],
        tokenizer,
        window_features.WindowOptions(max_seq_length=8, max_query_length=2),
    )
    assert window.tokens[:6] == ("[CLS]", "q", "[SEP]", "a", "b", "c")
    start = np.array([1.0, 9.0, 0.0, 2.0, 0.0, 5.0, 0.0, 0.0])
    end = np.array([1.5, 0.0, 0.0, 4.5, 3.0, 1.0, 9.0, 0.0])
    logits = np.stack([start, end])[np.newaxis]
    options = answer_ranking.AnswerOptions(version_2_with_negative=True)
    spans = list(answer_ranking.ranked_spans([window], logits, options))
    # The sum of start 5 and end 3 is the highest, but it ends too early.
    assert spans[0] == (0, 3, 3)
    assert all(start <= end for _, start, end in spans)
    # No answer is the span of [CLS].
    assert (0, 0, 0) in spans


def test_threshold():
    # The score of no answer less that of the best answer.
    ranked = answer_ranking.RankedAnswers(
        qas_id="1",
        nbest=(
            answer_ranking.Candidate(
                text="text", start_logit=1.0, end_logit=1.0, probability=1.0
            ),
        ),
        null_odds=2.0,
    )
    # An answer must not be more than 1 or 3 below: tau is -1 or -3.
    for threshold, answer in ((1.0, ""), (3.0, "text")):
        assert ranked.prediction(threshold) == answer


def test_ablations():
    commands = _commands("table-5", "table-8")
    for objective in ("mlm_nsp", "mlm", "ltr"):
        assert any(f"--objective={objective} " in x for x in commands)
    (bilstm, *_) = [x for x in commands if "--bilstm_head" in x]
    assert "--attention=causal" in bilstm
    masking = {
        x.partition("--masking=")[2].split()[0]
        for x in commands
        if "--masking=" in x
    }
    assert {"80,10,10", "100,0,0", "80,0,20"} < masking
    assert {"80,20,0", "0,20,80", "0,0,100"} < masking


def test_steps():
    keep = f"--keep_checkpoint_every_n_steps={scales.FULL.keep_every}"
    commands = _commands("figure-5")
    assert any("run_pretraining" in x and keep in x for x in commands)
    for step in scales.FULL.figure_steps:
        assert step % scales.FULL.keep_every == 0
        assert any(f"/model.ckpt-{step} " in x for x in commands)
    assert scales.FULL.figure_steps[-1] == 1_000_000


def test_first_piece(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "play", "##ing", "chess"]
    words = ("playing", "chess")
    ((window,),) = windows.make_windows(
        [conll.Sentence(words=words, tags=None, lines=(), document=0)],
        [[1, 2]],
        toy_vocabulary.tokenizer(tmp_path, pieces),
        8,
    )
    assert window.input_ids == (2, 4, 5, 6, 3)
    assert window.positions == (1, 3)


def test_features():
    config = toy_config.config(num_hidden_layers=4)
    model = heads.BertForTokenClassification(
        config, num_labels=3, features="concat_last_four"
    )
    assert model.frozen_variables == ("bert/.*",)
    # A kernel of two directions in each of two layers, as wide as BERT.
    kernels = [
        tuple(variable.shape)
        for name, variable in checkpoints.variables_by_name(model).items()
        if name.startswith("features/")
        and name.endswith("/kernel")
        and "recurrent" not in name
    ]
    width = config.hidden_size
    assert sorted(kernels) == sorted(
        2 * [(4 * width, 4 * width)] + 2 * [(2 * width, 4 * width)]
    )
    assert _BASE.hidden_size == 768
