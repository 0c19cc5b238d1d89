"""Which queries match which texts, without a database."""

import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from assent.breakpoints.search_words import (
    MAX_INDEXED_CHARACTERS,
    MAX_SOUGHT_WORDS,
    MAX_WORD_CHARACTERS,
    indexed_words,
    is_found,
    sought_words,
)

ID = "bp_06g1v8k2s5qtd3n0f7c9m4p1ab"
HAN = st.text(st.sampled_from("東京都本番環境緊急停止日本語"), min_size=1, max_size=12)
WORDS = st.text(st.characters(whitelist_categories=["Ll"], max_codepoint=0x24F), min_size=2, max_size=20)


def found(q: str, *texts: str) -> bool:
    return is_found(sought_words(q), indexed_words(*texts))


@pytest.mark.parametrize(
    ("q", "text"),
    [
        ("prod", "deploy.production"),
        ("production", "deploy.production"),
        ("deploy.prod", "deploy.production"),
        ("DEPLOY", "deploy.production"),
        ("star-re", "confirm.star-repo"),
        ("bot", "deploy_bot"),
        ("v1.2", "release-v1.2.3"),
        ("v1.2.3", "release-v1.2.3"),
        ("deploy.77", "acme/deploy.77"),
        ("deploy-77", "deploy.77"),
        ("DEPLOY．77", "deploy.77"),
        ("deploy.7", "deploy.7"),
        ("agent-4", "agent-4"),
        ("agent-49", "(agent-49)"),
        ("77", "deploy.77"),
        ("deploy.", "deploy.77"),
        ("über.prod", "Überweisung, über.production"),
        ("example.com/a", "https://example.com/a/b"),
        ("v2.本番", "v2 本番"),
        ("4812", "Deploy build 4812"),
        ("48", "Deploy build 4812"),
        ("4", "step 4 of 5"),
        (ID, ID),
        (ID[:9], ID),
        (ID.upper(), ID),
        ("bp_06", ID),
        ("uberweisu", "Überweisung"),
        ("überw", "U\u0308berweisung"),
        ("STRASSE", "Straße"),
        ("file", "ﬁle"),
        ("prod", "ｐｒｏｄ"),
        ("production", "pro\u200bduc\u00adtion"),
        ("本番", "本番環境に配備"),
        ("環境", "本番環境に配備"),
        ("境に配", "本番環境に配備"),
        ("備", "本番環境に配備"),
        ("デプロイ", "本番環境へのデプロイを承認"),
        ("배포", "프로덕션배포"),
        ("กรุงเทพ", "ไปกรุงเทพมหานคร"),
        ("环境 prod", "生产环境 production"),
        ("本番", "v2本番"),
        ("नमस", "नमस्ते दुनिया"),
        ("прод", "Продакшн"),
        ("🚀", "🚀 Deploy"),
        ("⚠", "⚠\ufe0f Careful"),
    ],
)
def test_search_matches_word_prefixes_and_spelling_variants(q: str, text: str) -> None:
    assert found(q, "something else", text, "and more")


@pytest.mark.parametrize(
    ("q", "text"),
    [
        ("duction", "production"),
        ("productions", "production"),
        ("p", "production"),
        ("4", "build 4812"),
        ("bp", "job"),
        (ID[:9] + "zz", ID),
        ("本境", "本番環境"),
        ("日本語", "日本 本語"),
        ("番v2", "v2"),
        ("prod 本番", "production"),
        ("deploy.77", "Deploy build 77123"),
        ("deploy.77", "deploy 77"),
        ("deploy.7", "deploy.77"),
        ("v1.2", "v12"),
        ("v1.3", "v1.2.3"),
        ("dep.77", "deploy.77"),
    ],
)
def test_search_does_not_match_absent_words(q: str, text: str) -> None:
    assert not found(q, text)


@pytest.mark.parametrize("q", ["", " ", "?!", "''", "\u200b", "_", "%", "\x00", "\ud800", "\u202e", "&|:*", "->"])
def test_a_query_without_words_finds_nothing(q: str) -> None:
    assert sought_words(q) == ()
    assert not found(q, q, "anything")


@given(WORDS, st.integers(2, 20), st.text(), st.text())
def test_every_prefix_of_a_word_is_found(word: str, length: int, before: str, after: str) -> None:
    beginning = word[: max(2, length)]
    assume("·" not in unicodedata.normalize("NFKC", word))  # ŀ becomes l·, which is two words
    assert found(beginning, f"{before}\n{word}\n{after}") or not sought_words(beginning)


@given(HAN, HAN, HAN)
def test_every_part_of_a_text_without_spaces_is_found(before: str, part: str, after: str) -> None:
    assert found(part, f"{before}{part}{after}")


@given(HAN, HAN)
def test_unspaced_text_is_found_only_by_its_substrings(text: str, q: str) -> None:
    assert found(q, text) == (q in text)


@given(st.text())
def test_every_text_is_found_by_a_search_for_that_text(text: str) -> None:
    assert found(text, text) or not sought_words(text)


@given(st.text())
def test_indexed_words_are_safe_in_any_query_language(text: str) -> None:
    for word in (*indexed_words(text).split(" "), *" ".join(sought_words(text)).split(" ")):
        assert not set(word) & set("'\"\\*:&|!()<>- \t\n\x00")
        assert len(word) <= MAX_WORD_CHARACTERS


@given(st.text())
def test_indexed_words_are_surrounded_by_spaces(text: str) -> None:
    words = indexed_words(text)
    assert words == (f" {' '.join(words.split())} " if words else "")


def test_long_texts_are_truncated_before_indexing() -> None:
    assert len(indexed_words("a " * 10**6)) <= MAX_INDEXED_CHARACTERS + 2
    assert found("last", "x" * 30, "last") and not found("last", "x " * MAX_INDEXED_CHARACTERS, "last")  # noqa: PT018


@pytest.mark.parametrize("text", ["a." * 10_000, "a" * 99 + ".b", "-._/:@#" * 3_000, "本.a." * 5_000, "é." * 10_000])
def test_long_names_do_not_multiply_the_indexed_words(text: str) -> None:
    words = indexed_words(text)
    assert len(words) <= 3 * MAX_INDEXED_CHARACTERS
    assert found(text[:80], text) or not words


def test_the_number_of_words_in_a_query_is_limited() -> None:
    many = [f"w{n}" for n in range(500)]
    assert len(sought_words(" ".join(many))) == MAX_SOUGHT_WORDS
    assert sought_words("a b " * 500) == (" a ", " b ")
    assert found("x" * 900, "x" * 950)
