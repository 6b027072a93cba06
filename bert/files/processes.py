"""An ordered map over worker processes, and batching of its items."""

import collections
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import process
from typing import Any, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_order(
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
    num_workers: int,
    items_ahead: int = 1,
) -> Iterator[_Result]:
    """Yields `work(item)` for each item, in order.

    The processes end with this one, even after `kill -9`.

    Args:
        work: a function that other processes can import. It is sent to each
            process once, so it may be a `functools.partial` of large data.
        items: consumed lazily.
        num_workers: processes; 0 for one per core, 1 for this process alone.
        items_ahead: items in memory that wait for a worker, in addition to
            those in progress.

    Raises:
        RuntimeError: a worker process died.
    """
    num_workers = num_workers or os.cpu_count() or 1
    if num_workers == 1:
        yield from map(work, items)
        return
    others = {*multiprocessing.active_children()}
    # "spawn", because a fork would copy the locks of running threads.
    with futures.ProcessPoolExecutor(
        num_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(work,),
    ) as pool:
        try:
            yield from in_order(
                pool, _work_on, items, num_workers + items_ahead
            )
        except process.BrokenProcessPool as error:
            raise RuntimeError(
                f"One of {num_workers} worker processes died: it was killed, "
                "or the machine is out of memory. Use fewer processes."
            ) from error
        except (KeyboardInterrupt, GeneratorExit):
            # Otherwise the pool waits for the work in progress.
            for worker in {*multiprocessing.active_children()} - others:
                worker.kill()
            raise


def in_order(
    pool: futures.Executor,
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
    num_pending: int,
) -> Iterator[_Result]:
    """Yields `work(item)` for each item, in order, from a pool.

    Args:
        pool: does the work.
        work: see `map_in_order`.
        items: consumed lazily, so that at most `num_pending` wait or are done.
    """
    pending: collections.deque[futures.Future] = collections.deque()
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            del item  # Frees its memory while other items are in progress.
            while len(pending) >= num_pending:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def batches(
    items: Iterable[_Item], min_size: int, size_of: Callable[[_Item], int]
) -> Iterator[list[_Item]]:
    """Groups items; the groups depend on the items alone.

    Args:
        items: consumed lazily.
        min_size: a group ends with the item that reaches this total size.
        size_of: returns the size of an item.
    """
    batch: list[_Item] = []
    size = 0
    for item in items:
        batch.append(item)
        size += size_of(item)
        if size >= min_size:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


# The function of this process, if it is a worker.
_work: list[Callable] = []


def _start_worker(work: Callable) -> None:
    # A terminal sends Ctrl-C to all processes; this one ends with its parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _work.append(work)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_on(item: Any) -> Any:
    return _work[-1](item)
