"""What survived into the context: measures of a packed context and of the list it was packed from."""

from isinglass.diagnosis.diagnosing import Diagnoses, Diagnosis, diagnose
from isinglass.diagnosis.facts import answer_facts, answer_facts_in_context, answer_facts_similarity
from isinglass.diagnosis.ranking import all_gold_at, ndcg_at, recall_at
from isinglass.diagnosis.scoring import Score, answer_score, joint_score, supporting_fact_score
from isinglass.diagnosis.sets import SetMeasures, set_measures
from isinglass.diagnosis.spans import answer_spans
from isinglass.diagnosis.survival import (
    AnswerInContext,
    AnswersInContexts,
    all_gold_in_context,
    answer_in_context,
    answers_in_contexts,
    distractor_docs,
    gold_doc_coverage,
    gold_token_density,
)
from isinglass.diagnosis.trace import Trace, read_trace, text_hash
from isinglass.diagnosis.views import openinference_attributes, ragas_row, trec_qrels, trec_run

__all__ = [
    "AnswerInContext",
    "AnswersInContexts",
    "Diagnoses",
    "Diagnosis",
    "Score",
    "SetMeasures",
    "Trace",
    "all_gold_at",
    "all_gold_in_context",
    "answer_facts",
    "answer_facts_in_context",
    "answer_facts_similarity",
    "answer_in_context",
    "answer_score",
    "answer_spans",
    "answers_in_contexts",
    "diagnose",
    "distractor_docs",
    "gold_doc_coverage",
    "gold_token_density",
    "joint_score",
    "ndcg_at",
    "openinference_attributes",
    "ragas_row",
    "read_trace",
    "recall_at",
    "set_measures",
    "supporting_fact_score",
    "text_hash",
    "trec_qrels",
    "trec_run",
]
