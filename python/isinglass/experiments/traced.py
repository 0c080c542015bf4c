"""Rows from traces alone: what can be said of selections that no table of an evaluation is at hand for."""

from collections.abc import Iterable, Mapping
from typing import Any

from isinglass.diagnosis.diagnosing import diagnose
from isinglass.diagnosis.ranking import all_gold_at
from isinglass.experiments.rows import Rows

_WITHOUT_TEXTS = ("gold_doc_coverage", "all_gold_in_context", "gold_token_density", "distractor_docs")


def traced_rows(records: Iterable[Mapping[str, Any]]) -> Rows:
    """The table of an experiment, as far as traces tell.

    Parameters
    ----------
    records : iterable of mapping
        Of `isinglass.diagnosis.read_trace`. Of two lines on one question, policy and budget the later counts. A
        question without an id goes by its hash.

    Returns
    -------
    Rows
        Tokens and pieces; for lines with gold documents also what `isinglass.diagnose` measures, of answers only where
        there are texts.
    """
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        row = {
            "dataset": record.get("dataset"),
            "question": record["query_id"] or record["query_hash"],
            "policy": record.get("variant") or record["policy"],
            "budget": record["budget"],
        }
        measured = {
            "bucket": record["bucket"],
            "tokens": record["cost"],
            "snippets": len(record["stages"]["materialised"]),
            "candidates": len(record["candidates"]),
            "retrieved_tokens": sum(source["tokens"] for source in record["sources"]),
        }
        rows[tuple(row.values())] = row | measured | (_diagnosed(record) if "gold" in record else {})
    return Rows.of(rows.values())


def _diagnosed(record: Mapping[str, Any]) -> dict[str, Any]:
    names = [source["id"] if source["doc"] is None else source["doc"] for source in record["sources"]]
    context = record.get("context", "")
    snippets = [
        {
            "text": context[slice(*piece["context"])],
            "doc": names[piece["passage"]],
            "cost": piece["tokens"],
            "index": piece["passage"],
            "span": piece["span"],
            "context": piece["context"],
        }
        for piece in record["stages"]["materialised"]
    ]
    question = {"answers": record.get("answers", []), "gold": record["gold"]}
    seen = {"text": context, "snippets": snippets, "cost": record["cost"]} if context else snippets
    found = diagnose(seen, question, names).as_dict()
    known = found if "context" in record else {name: found[name] for name in _WITHOUT_TEXTS}
    named = {name: value for name, value in known.items() if value is not None and name != "id"}
    of_retrieval = {
        "gold_documents": len(record["gold"]),
        "all_gold_retrieved": all_gold_at(names, record["gold"], len(names)),
    }
    return named | of_retrieval
