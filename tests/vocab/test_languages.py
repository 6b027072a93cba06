"""Languages of multilingual text."""

import pytest

from vocab import learning


def test_shares_are_smoothed_by_the_exponent_and_the_whole_stays():
    sizes = {"en": 1000, "is": 1}
    copies = learning.copies_of_languages(sizes, 0.7)
    taken = {name: copies[name] * size for name, size in sizes.items()}
    assert sum(taken.values()) == pytest.approx(1001)
    # Source: multilingual.md: "1000x more ... only sampled 100x more".
    assert taken["en"] / taken["is"] == pytest.approx(1000**0.7)
    assert learning.copies_of_languages(sizes, 1) == pytest.approx(
        {"en": 1, "is": 1}
    )
    even = learning.copies_of_languages(sizes, 0)
    assert even == pytest.approx({"en": 0.5005, "is": 500.5})
    assert learning.describe_languages({"en": 3, "is": 1}, 0.5) == [
        "en: 75.00% of the text, 63.40% with the exponent 0.5: taken 0.85 "
        "times",
        "is: 25.00% of the text, 36.60% with the exponent 0.5: taken 1.46 "
        "times",
    ]


def test_language_without_text_is_refused():
    with pytest.raises(ValueError, match="No text in: is"):
        learning.copies_of_languages({"en": 9, "is": 0}, 0.7)


def test_files_are_listed_by_language(tmp_path):
    for name in ("a.txt", "b.txt", "c=d.txt"):
        (tmp_path / name).touch()
    patterns = f"en={tmp_path}/[ab].txt, is={tmp_path}/c=d.txt,en={tmp_path}/c*"
    assert learning.files_of_languages(patterns) == {
        "en": [f"{tmp_path}/{name}" for name in ("a.txt", "b.txt", "c=d.txt")],
        "is": [f"{tmp_path}/c=d.txt"],
    }
    for wrong in ("a.txt", "en=", "=a.txt"):
        with pytest.raises(ValueError, match="names the language of each glob"):
            learning.files_of_languages(wrong)
