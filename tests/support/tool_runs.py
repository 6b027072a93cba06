"""Tools, run in this process on models that a test has made."""

import io
import json
import pathlib
from typing import Any

from tests.support import golden_models
from tools import convert_checkpoint, export_model, predict


def predicted(
    model: pathlib.Path, *texts: str, given: bytes = b"", **options: Any
) -> str:
    """Returns what tools.predict prints."""
    output = io.StringIO()
    predict.run(
        predict.Options(model=str(model), **options),
        texts,
        io.BytesIO(given),
        output,
    )
    return output.getvalue()


def answers(model: pathlib.Path, *texts: str, **options: Any) -> list[Any]:
    """Returns what tools.predict prints as JSON; None for a blank line."""
    lines = predicted(model, *texts, format="json", **options).splitlines()
    return [json.loads(line) if line else None for line in lines]


def exported(model: pathlib.Path, folder: pathlib.Path, **options: Any) -> str:
    """Exports a model; returns the folder of its version."""
    return export_model.run(
        export_model.Options(
            model_dir=str(model), export_dir=str(folder), **options
        )
    )


def export_golden(
    folder: pathlib.Path, name: str, *arguments: Any, **entries: Any
) -> None:
    """Exports one of `golden_models` to `served/1`, for `made_once`."""
    make = getattr(golden_models, name)
    model = make(folder / "model", *arguments, **entries)
    exported(model, folder / "served")


def converted(
    source: pathlib.Path, target: Any, output_format: str, **options: Any
) -> Any:
    """Converts a checkpoint; returns the target."""
    convert_checkpoint.convert(
        convert_checkpoint.Options(
            input=str(source),
            output=str(target),
            output_format=output_format,
            **options,
        )
    )
    return target
