from training import card_summary

_CARD = {
    "program": "run_x.py",
    "started": "2026-01-02T03:04:05+00:00",
    "seconds": 306.2,
    "ended": "finished",
    "memory": {"host": 1_500_000_000},
    "model": {"num_parameters": 4433468},
    "training": {
        "last_step": 20,
        "examples_per_second": 12.34,
        "input_wait": 1.26,
        "last_training": {"step": 20, "loss": 6.54321, "learning_rate": 0.0},
        "last_evaluation": {"step": 10, "eval_loss": 7.0},
    },
    "results": {"eval_results.txt": {"loss": 6.9, "global_step": 20}},
    "written": {
        "model.ckpt-20.index": 400_000,
        "model.ckpt-20.data-00000-of-00001": 53_000_000,
        "best/model.ckpt-10.index": 100_000,
        "events.out.tfevents.1.a.2.0.v2": 100_000,
        "events.out.tfevents.2.a.2.0.v2": 100_000,
    },
}


def test_a_card_in_lines():
    assert card_summary.lines(_CARD) == [
        "  run                run_x.py, 2026-01-02T03:04:05+00:00, 5m 06s, "
        "finished, 1,500.0 MB of memory at most, 12.3 examples/s, "
        "1.3 % of it waiting for input",
        "  model              4,433,468 parameters",
        "  training, step 20  loss 6.543",
        "  held out, step 10  loss 7",
        "  eval_results.txt   loss 6.9  global_step 20",
        "  wrote              model.ckpt-20.* (53.4 MB), "
        "best/model.ckpt-10.* (100.0 kB), events.out.tfevents.* (200.0 kB)",
    ]


def test_many_files_are_counted():
    card = {
        **_CARD,
        "training": {"trial-1": {"last_training": {"step": 3, "f1": 0.5}}},
        "written": {f"{n:02}.txt": 10**6 for n in range(15)},
    }
    *_, trial, _, wrote = card_summary.lines(card)

    assert "trial-1, training, step 3" in trial
    assert wrote.endswith("11.txt (1.0 MB), 3 more")


def test_tensorboard_shows_the_summary(tmp_path):
    from tensorboard.backend.event_processing import (
        plugin_event_accumulator as event_accumulator,
    )

    card = {**_CARD, "flags": {"learning_rate": 0.5}}
    card_summary.to_tensorboard(str(tmp_path), card)
    events = event_accumulator.EventAccumulator(str(tmp_path)).Reload()
    (event,) = events.Tensors("run")
    assert event.step == 20
    text = event.tensor_proto.string_val[0].decode()
    assert "--learning_rate=0.5" in text
    assert "4,433,468 parameters" in text
