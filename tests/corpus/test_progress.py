"""Bars and the time left."""

from corpus import progress


def test_tells_the_share_and_the_time_left(caplog):
    times = iter([0.0, 4.9, 10.0, 10.5, 20.0])
    bar = progress.Progress("Making", clock=lambda: next(times))
    for share in (0.1, 0.25, 0.3, 1.0):
        bar.update(share, f"at {share}")
    first, last = caplog.messages
    # The first came too early, the third too soon after the second.
    assert first == f"Making [{'#' * 8}{'.' * 22}]  25 %, 0:00:30 left, at 0.25"
    assert last == f"Making [{'#' * 30}] 100 %, 0:00:00 left, at 1.0"


def test_nothing_done_tells_nothing(caplog):
    times = iter([0.0, 100.0])
    progress.Progress("Making", clock=lambda: next(times)).update(0.0)
    assert caplog.messages == []
