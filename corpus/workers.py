"""The same work on many things, in other processes, in order."""

import collections
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_order(
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
    num_workers: int,
    items_ahead: int = 1,
) -> Iterator[_Result]:
    """Yields `work(item)` for each item, in order.

    Args:
        work: a function that other processes can import.
        items: read as they are needed.
        num_workers: processes; 0 for one per core, 1 for none but this one.
        items_ahead: items that wait for a worker, besides those being worked
            on; each is in memory.
    """
    num_workers = num_workers or os.cpu_count() or 1
    if num_workers == 1:
        yield from map(work, items)
        return
    # "spawn": a fork would copy the locks of whatever threads are running.
    with futures.ProcessPoolExecutor(
        num_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_end_with_parent,
    ) as pool:
        pending: collections.deque[futures.Future] = collections.deque()
        try:
            for item in items:
                pending.append(pool.submit(work, item))
                del item  # Not to be held while others are worked on.
                while len(pending) >= num_workers + items_ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _end_with_parent() -> None:
    """Ends this worker when its parent is gone, even by `kill -9`."""

    def wait():
        multiprocessing.parent_process().join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
