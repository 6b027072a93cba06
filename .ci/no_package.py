"""Build backend of pyproject.toml: refuses, since there is no package."""

_MESSAGE = (
    "This project is not a package: its programs run from a clone. Install "
    "what they import with pip install -r requirements/base.txt, or start "
    "one with uv run."
)


def _refuse(*_: object, **__: object) -> None:
    raise SystemExit(_MESSAGE)


# The hooks of PEP 517 and PEP 660.
build_wheel = build_sdist = build_editable = _refuse
get_requires_for_build_wheel = get_requires_for_build_sdist = _refuse
get_requires_for_build_editable = _refuse
