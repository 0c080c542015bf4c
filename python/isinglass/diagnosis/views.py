"""Views of traces and questions in the formats of other tools: TREC, OpenInference, ragas."""

import json
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

from isinglass.measure.pool import one_of

STAGES = ("retrieved", "packed")

_UNSAFE = re.compile(r"[%\s]")


def trec_id(name: Hashable) -> str:
    """A document's name as one word: white space and per cent signs percent-encoded, for TREC files cut at spaces."""
    return _UNSAFE.sub(lambda found: "".join(f"%{byte:02X}" for byte in found.group().encode()), str(name)) or "%"


def trec_run(records: Iterable[dict[str, Any]], stage: str, tag: str | None = None) -> Iterator[str]:
    """Lines ``qid Q0 docid rank score tag`` of the documents in a stage of each trace record.

    Parameters
    ----------
    records : iterable of dict
        Of `isinglass.diagnosis.trace.read_trace`.
    stage : {"retrieved", "packed"}
        The list before, or the documents of the context in order of appearance.
    tag : str, optional
        Default: "retrieved", or the policy.

    Yields
    ------
    str
        Without line ends. A query without an id goes by its hash. Scores fall by one a rank: a pack has no others.
    """
    one_of("stage", stage, STAGES)
    for record in records:
        sources = record["sources"]
        packed = [piece["passage"] for piece in record["stages"]["materialised"]]
        places = packed if stage == "packed" else list(range(len(sources)))
        names = [sources[i]["id"] if sources[i]["doc"] is None else sources[i]["doc"] for i in places]
        documents = list(dict.fromkeys(map(trec_id, names)))
        query = trec_id(record["query_id"] or record["query_hash"])
        named = trec_id(tag or (record["policy"] if stage == "packed" else stage))
        for rank, document in enumerate(documents, 1):
            yield f"{query} Q0 {document} {rank} {len(documents) - rank + 1} {named}"


def trec_qrels(questions: Iterable[Any]) -> Iterator[str]:
    """Lines ``qid 0 docid 1`` of the gold documents of each question (with `id` and `gold_documents`)."""
    for question in questions:
        for document in dict.fromkeys(map(trec_id, question.gold_documents)):
            yield f"{trec_id(question.id)} 0 {document} 1"


def openinference_attributes(record: dict[str, Any]) -> dict[str, str | int | float]:
    """Attributes of an OpenInference span of kind RERANKER: candidates in, the pack out.

    Parameters
    ----------
    record : dict
        A trace record. Texts are there if it has them.

    Returns
    -------
    dict of str to str, int or float
        Flat, as OpenTelemetry wants them. Cost, reason and gain stand in each document's metadata, as JSON.

    References
    ----------
    OpenInference semantic conventions.
    """
    candidates = {candidate["id"]: candidate for candidate in record["candidates"]}
    attributes: dict[str, str | int | float] = {
        "openinference.span.kind": "RERANKER",
        "reranker.model_name": f"isinglass/{record['policy']}",
    }
    if "query" in record:
        attributes["reranker.query"] = record["query"]
    packed = [candidates[piece["id"]] for piece in record["stages"]["materialised"]]
    for side, documents in (("input", candidates.values()), ("output", packed)):
        for i, candidate in enumerate(documents):
            prefix = f"reranker.{side}_documents.{i}.document"
            attributes[f"{prefix}.id"] = str(candidate["id"])
            attributes[f"{prefix}.score"] = candidate["relevance"]
            shown = {name: candidate[name] for name in ("reason", "gain", "cost", "span")}
            attributes[f"{prefix}.metadata"] = json.dumps(shown)
            if "text" in candidate:
                attributes[f"{prefix}.content"] = candidate["text"]
    attributes["metadata"] = json.dumps(
        {name: record[name] for name in ("budget", "cost", "counter", "query_hash", "config_hash")}
    )
    return attributes


def ragas_row(
    query: str,
    contexts: Sequence[str],
    *,
    response: str | None = None,
    reference: str | None = None,
    reference_contexts: Sequence[str] | None = None,
    context_ids: Sequence[str] | None = None,
    reference_ids: Sequence[str] | None = None,
) -> dict[str, Any]:
    """One row under the column names of ragas; what is not known is left out.

    Parameters
    ----------
    query : str
    contexts : sequence of str
        What the reader saw, such as the texts of `Selected.snippets`.
    response, reference : str, optional
        The reader's answer, and the gold one.
    reference_contexts : sequence of str, optional
        Texts of the gold documents.
    context_ids, reference_ids : sequence of str, optional
        The documents of `contexts`, and the gold ones.
    """
    row = {
        "user_input": query,
        "retrieved_contexts": list(contexts),
        "response": response,
        "reference": reference,
        "reference_contexts": None if reference_contexts is None else list(reference_contexts),
        "retrieved_context_ids": None if context_ids is None else list(context_ids),
        "reference_context_ids": None if reference_ids is None else list(reference_ids),
    }
    return {name: value for name, value in row.items() if value is not None}
