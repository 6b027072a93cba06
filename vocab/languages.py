"""Sampling of languages in multilingual text.

Source: multilingual.md of the release. A language L with share P(L) of the text
is sampled in proportion to P(L) ** S. With S = 0.7, rare languages are
over-sampled and English is under-sampled.
"""

from collections.abc import Mapping

from files import paths


def expand(patterns: str) -> dict[str, list[str]]:
    """Lists the files of each language in `LANG=FILES,LANG=FILES`.

    Raises:
        ValueError: a pattern has no language, or matches no file.
    """
    files: dict[str, list[str]] = {}
    for part in filter(None, map(str.strip, patterns.split(","))):
        language, _, pattern = part.partition("=")
        if not (language and pattern):
            raise ValueError(
                "With --language_exponent, --input_file names the language of "
                f"each glob, as in en=en/*.txt,is=is/*.txt; got {part!r}."
            )
        files.setdefault(language, []).extend(paths.expand(pattern))
    return files


def copies(sizes: Mapping[str, float], exponent: float) -> dict[str, float]:
    """Computes the number of copies of the text of each language.

    Args:
        sizes: of each language's text, in any unit.
        exponent: S; 1 takes all text once, 0 the same amount per language.

    Returns:
        A factor for each language that preserves the total size.

    Raises:
        ValueError: a language has no text.
    """
    empty = [language for language, size in sizes.items() if not size]
    if empty or not sizes:
        raise ValueError(f"No text in: {', '.join(empty) or 'no language'}.")
    scale = sum(sizes.values()) / sum(n**exponent for n in sizes.values())
    return {
        language: scale * size ** (exponent - 1)
        for language, size in sizes.items()
    }


def describe(sizes: Mapping[str, float], exponent: float) -> list[str]:
    """Describes the old share, new share and factor of each language."""
    total = sum(sizes.values())
    return [
        f"{language}: {sizes[language] / total:.2%} of the text, "
        f"{factor * sizes[language] / total:.2%} with the exponent {exponent}: "
        f"taken {factor:.2f} times"
        for language, factor in copies(sizes, exponent).items()
    ]
