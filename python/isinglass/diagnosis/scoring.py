"""Scores of a predicted answer and of predicted supporting facts, by the rules of the official scripts."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import NamedTuple

from isinglass.diagnosis.normalisation import lenient_tokens, normalised_tokens, official_tokens
from isinglass.measure.pool import one_of
from isinglass.measure.text import ascii_words

_VERDICTS = frozenset(("yes", "no", "noanswer"))


class _Rule(NamedTuple):
    tokens: Callable[[str], list[str]]
    bag: Callable[[str], list[str]]  # of the F1
    verdicts: bool  # a verdict that differs scores 0, whatever the overlap
    both_empty: float  # F1 of nothing against nothing
    drop_empty: bool  # gold answers that normalise to nothing do not count


def _published_bag(text: str) -> list[str]:
    return ascii_words(" ".join(normalised_tokens(text)))


# One table: what each name of `rule=` stands for.
RULES = {
    "hotpotqa": _Rule(official_tokens, official_tokens, verdicts=True, both_empty=0.0, drop_empty=False),
    "squad": _Rule(official_tokens, official_tokens, verdicts=False, both_empty=1.0, drop_empty=True),
    "musique": _Rule(official_tokens, official_tokens, verdicts=False, both_empty=1.0, drop_empty=False),
    "p1": _Rule(normalised_tokens, _published_bag, verdicts=False, both_empty=0.0, drop_empty=False),
    "lenient": _Rule(lenient_tokens, lenient_tokens, verdicts=False, both_empty=1.0, drop_empty=False),
}


class Score(NamedTuple):
    """Agreement of a prediction with the gold.

    Attributes
    ----------
    em : float
        Exact match, 0 or 1.
    f1, precision, recall : float
        In [0, 1]; those of the gold answer with the best F1.
    """

    em: float
    f1: float
    precision: float
    recall: float


def answer_score(prediction: str, answers: Sequence[str], rule: str = "hotpotqa") -> Score:
    """Exact match and F1 of a predicted answer, the best over the gold answers.

    Parameters
    ----------
    prediction : str
        May be empty: an unanswered question.
    answers : sequence of str
        Gold answers, at least one.
    rule : {"hotpotqa", "squad", "musique", "p1", "lenient"}
        ``hotpotqa``: where either side is yes, no or noanswer and they differ, F1 is 0; two empty sides match exactly
        but have F1 0. ``squad``: gold answers that normalise to nothing are left out, and where none is left the gold
        is the empty answer; F1 is 1 where both sides are empty. ``musique``: as ``squad``, but every answer counts.
        ``p1``: F1 over runs of ``[A-Za-z0-9]`` of the normalised texts. ``lenient``: as ``musique`` after
        `lenient_tokens`, which gives Chinese and Japanese one token a character.

    Returns
    -------
    Score
        `em` and `f1` are each the best over the answers; `precision` and `recall` belong to the best `f1`.

    Raises
    ------
    TypeError
        If `prediction` is not a string, or `answers` is one.
    ValueError
        If there is no gold answer, or for another rule.

    References
    ----------
    P. Rajpurkar et al. (2018), "Know What You Don't Know: Unanswerable Questions for SQuAD". Z. Yang et al. (2018),
    "HotpotQA". H. Trivedi et al. (2022), "MuSiQue". A. N. Bala (2026), "A Diagnostic for Budget-Constrained Multi-Hop
    RAG and When Submodular Evidence Packing Improves It".
    """
    if not isinstance(prediction, str):
        raise TypeError(f"prediction must be a string, got {type(prediction).__name__}")
    if isinstance(answers, (str, bytes)):
        raise TypeError(f"answers must be a collection, expected e.g. [{answers!r}], got the bare string {answers!r}")
    if not answers:
        raise ValueError("answers must hold at least one answer, got none")
    chosen = RULES[one_of("rule", rule, tuple(RULES))]
    golds = [gold for gold in answers if chosen.tokens(gold)] or [""] if chosen.drop_empty else list(answers)
    scores = [_against(prediction, gold, chosen) for gold in golds]
    return max(scores, key=lambda score: score.f1)._replace(em=max(score.em for score in scores))


def _against(prediction: str, gold: str, rule: _Rule) -> Score:
    said, meant = rule.tokens(prediction), rule.tokens(gold)
    em = float(said == meant)
    if rule.verdicts and said != meant and not _VERDICTS.isdisjoint((" ".join(said), " ".join(meant))):
        return Score(em, 0.0, 0.0, 0.0)
    return Score(em, *_overlap(rule.bag(prediction), rule.bag(gold), rule.both_empty))


def _overlap(said: Sequence[str], meant: Sequence[str], both_empty: float) -> tuple[float, float, float]:
    """F1, precision, recall of two bags of tokens."""
    if not said or not meant:
        return (both_empty,) * 3 if not said and not meant else (0.0, 0.0, 0.0)
    common = (Counter(said) & Counter(meant)).total()
    return _harmonic(common / len(said), common / len(meant))


def _harmonic(precision: float, recall: float) -> tuple[float, float, float]:
    total = precision + recall
    return (2 * precision * recall / total if total else 0.0), precision, recall


def supporting_fact_score(predicted: Collection[Hashable], gold: Collection[Hashable]) -> Score:
    """Exact match and F1 of a set of supporting facts.

    Parameters
    ----------
    predicted, gold : collection of (title, sentence index)
        Repeats count once.

    Returns
    -------
    Score
        By the script of HotpotQA: 0 wherever nothing is common; two empty sets match exactly with F1 0.

    References
    ----------
    Z. Yang et al. (2018), "HotpotQA".
    """
    said, meant = {_hashable(fact) for fact in predicted}, {_hashable(fact) for fact in gold}
    common = len(said & meant)
    precision = common / len(said) if said else 0.0
    recall = common / len(meant) if meant else 0.0
    return Score(float(said == meant), *_harmonic(precision, recall))


def joint_score(answer: Score, facts: Score) -> Score:
    """Joint exact match and F1 of answer and supporting facts: precisions and recalls are multiplied.

    References
    ----------
    Z. Yang et al. (2018), "HotpotQA".
    """
    return Score(answer.em * facts.em, *_harmonic(answer.precision * facts.precision, answer.recall * facts.recall))


def _hashable(fact: Hashable) -> Hashable:
    return tuple(fact) if isinstance(fact, list) else fact
