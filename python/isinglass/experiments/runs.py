"""Retrieval runs: which documents a retriever found for each question, best first."""

from pathlib import Path

from isinglass.records import RecordError, read_records

_EXPECTED = 'expected {"id": question id, "documents": [titles, or id::paragraph index where titles repeat]}'


def read_run(path: str | Path) -> dict[str, tuple[str, ...]]:
    """Read a retrieval run.

    Parameters
    ----------
    path : str or Path
        JSON Lines (plain or gzip), one question a line: `{"id", "documents"}`, documents best first. A document is
        named by its title, or by `id::paragraph index` where titles repeat.

    Returns
    -------
    dict of str to tuple of str
        The documents of each question id, in file order.

    Raises
    ------
    RecordError
        At the first faulty line (a ValueError), with file, line and what was expected.
    OSError
        If the file cannot be opened.
    """
    run: dict[str, tuple[str, ...]] = {}
    for line, record in read_records(path):
        if isinstance(record, RecordError):
            raise record

        def refuse(got: str, line: int = line) -> RecordError:
            return RecordError(str(path), line, f"{_EXPECTED}, got {got}")

        if not isinstance(record, dict) or not {"id", "documents"} <= record.keys():
            raise refuse(f"the fields {sorted(record)}" if isinstance(record, dict) else f"a {type(record).__name__}")
        question, documents = record["id"], record["documents"]
        if not isinstance(question, str):
            raise refuse(f"id {question!r}")
        if not (isinstance(documents, list) and all(isinstance(name, str) for name in documents)):
            raise refuse(f"documents {str(documents)[:60]}")
        if len(set(documents)) < len(documents):
            repeated = next(name for i, name in enumerate(documents) if name in documents[:i])
            raise refuse(f"document {repeated!r} twice")
        if question in run:
            raise refuse(f"id {question!r} a second time")
        run[question] = tuple(documents)
    return run
