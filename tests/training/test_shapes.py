import tensorflow as tf

from training import shapes


def _recorded(seen):
    def function(batch):
        seen.append(tuple(batch["x"].shape))  # Once for each graph.
        return {"sum": tf.reduce_sum(batch["x"], axis=1)}

    return function


def _call(compiled, length):
    x = tf.ones([2, length])
    return compiled({"x": x})["sum"].numpy().tolist()


def test_each_shape_is_compiled_once():
    seen = []
    compiled = shapes.CompiledByShape(_recorded(seen))
    for length in (3, 5, 3, 5, 3):
        assert _call(compiled, length) == [length, length]
    assert seen == [(2, 3), (2, 5)]


def test_shapes_beyond_the_first_few_share_a_graph(monkeypatch):
    monkeypatch.setattr(shapes, "MAX_SHAPES", 2)
    seen = []
    compiled = shapes.CompiledByShape(_recorded(seen))
    for length in (3, 4, 5, 6, 7, 8, 4):
        assert _call(compiled, length) == [length, length]
    # The first of the others is compiled as it is, then the length is open.
    assert seen == [(2, 3), (2, 4), (2, 5), (2, None)]


def test_values_of_replicas_are_told_apart_by_their_shapes():
    strategy = tf.distribute.OneDeviceStrategy("/CPU:0")
    seen = []
    function = _recorded(seen)
    compiled = shapes.CompiledByShape(
        lambda batch: strategy.run(function, args=(batch,))
    )
    for length in (3, 4, 3):
        assert _call(compiled, length) == [length, length]
    assert seen == [(2, 3), (2, 4)]
