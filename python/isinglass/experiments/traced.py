"""Rows from traces alone: what can be said of selections that no table of an evaluation is at hand for."""

from collections.abc import Iterable, Mapping
from typing import Any

from isinglass.diagnosis.diagnosing import diagnose
from isinglass.diagnosis.ranking import all_gold_at
from isinglass.experiments.rows import Rows


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
        Tokens and pieces; for lines with texts and gold documents also what `isinglass.diagnose` measures.
    """
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        row = {
            "dataset": record.get("dataset"),
            "question": record["query_id"] or record["query_hash"],
            "policy": record.get("variant") or record["policy"],
            "budget": record["budget"],
        }
        measured = {"tokens": record["cost"], "snippets": len(record["stages"]["materialised"])}
        if "gold" in record and "context" in record:
            measured |= _diagnosed(record)
        rows[tuple(row.values())] = (
            row | {"bucket": record["bucket"], "candidates": len(record["candidates"])} | measured
        )
    return Rows.of(rows.values())


def _diagnosed(record: Mapping[str, Any]) -> dict[str, Any]:
    names = [source["id"] if source["doc"] is None else source["doc"] for source in record["sources"]]
    snippets = [
        {
            "text": record["context"][slice(*piece["context"])],
            "doc": names[piece["passage"]],
            "cost": piece["tokens"],
            "index": piece["passage"],
            "span": piece["span"],
            "context": piece["context"],
        }
        for piece in record["stages"]["materialised"]
    ]
    context = {"text": record["context"], "snippets": snippets, "cost": record["cost"]}
    question = {"answers": record.get("answers", []), "gold": record["gold"]}
    found = diagnose(context, question, names).as_dict()
    named = {name: value for name, value in found.items() if value is not None and name != "id"}
    of_retrieval = {
        "gold_documents": len(record["gold"]),
        "all_gold_retrieved": all_gold_at(names, record["gold"], len(names)),
    }
    return named | of_retrieval
