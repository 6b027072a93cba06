"""A process pool that maps a function in order, and batches of work for it."""

import collections
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from concurrent.futures import process
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

    The processes end with this one, even if it is ended by `kill -9`.

    Args:
        work: a function that other processes can import. It is sent to each
            process once, so it may be a `functools.partial` of large data.
        items: read as they are needed.
        num_workers: processes; 0 for one per core, 1 for none but this one.
        items_ahead: items that wait for a worker, besides those being worked
            on; each is in memory.

    Raises:
        RuntimeError: a worker process died.
    """
    num_workers = num_workers or os.cpu_count() or 1
    if num_workers == 1:
        yield from map(work, items)
        return
    # "spawn": a fork would copy the locks of whatever threads are running.
    with futures.ProcessPoolExecutor(
        num_workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
        initargs=(work,),
    ) as pool:
        pending: collections.deque[futures.Future] = collections.deque()
        try:
            for item in items:
                pending.append(pool.submit(_work_on, item))
                del item  # Not to be held while others are worked on.
                while len(pending) >= num_workers + items_ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except process.BrokenProcessPool as error:
            raise RuntimeError(
                f"One of {num_workers} worker processes died: it was killed, "
                "or the machine is out of memory. Use fewer processes."
            ) from error
        finally:
            for future in pending:
                future.cancel()


def batches(
    items: Iterable[_Item], min_size: int, size_of: Callable[[_Item], int]
) -> Iterator[list[_Item]]:
    """Groups items; the groups depend on the items alone.

    Args:
        items: read as they are needed.
        min_size: a group ends with the item that brings it to this size.
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


# What this process does, if it is a worker.
_work: list[Callable] = []


def _start_worker(work: Callable) -> None:
    _work.append(work)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work_on(item):
    return _work[-1](item)
