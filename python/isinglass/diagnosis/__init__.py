"""What survived into the context: measures of a packed context and of the list it was packed from."""

from isinglass.diagnosis.ranking import all_gold_at, recall_at
from isinglass.diagnosis.survival import (
    AnswerInContext,
    all_gold_in_context,
    answer_in_context,
    distractor_docs,
    gold_doc_coverage,
    gold_token_density,
)

__all__ = [
    "AnswerInContext",
    "all_gold_at",
    "all_gold_in_context",
    "answer_in_context",
    "distractor_docs",
    "gold_doc_coverage",
    "gold_token_density",
    "recall_at",
]
