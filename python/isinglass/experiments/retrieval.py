"""First-stage retrieval: the documents that a packer gets for each question, best first."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from isinglass.experiments.corpus import Corpus, Document
from isinglass.experiments.datasets import Question
from isinglass.experiments.graph import EvidenceGraph
from isinglass.measure.pool import one_of
from isinglass.measure.text import ascii_words, words

RETRIEVERS = ("bm25", "tfidf", "cosine", "embed", "none")
POOLS = ("own", "file")
GRAPHS = ("ace", "ace_bridge")

Embed = Callable[[list[str]], Any]
Retrieve = Callable[[Question], list[Document]]


def by_retriever(
    questions: Sequence[Question],
    retriever: str,
    *,
    pool: str,
    top_k: int | None,
    published: bool = False,
    embed: Embed | None = None,
    truncate_dim: int | None = None,
    graph: str | None = None,
    nodes: int = 48,
) -> Retrieve:
    """Retrieve by the text of paragraphs, without their titles, or by the claims and entities in them.

    Parameters
    ----------
    questions : sequence of Question
        All questions of a file.
    retriever : {"bm25", "tfidf", "cosine", "embed", "none"}
        What scores a text for a question: BM25, the cosine of words weighted by rarity or of their counts, or of
        embeddings. "none" gives every document in file order.
    pool : {"own", "file"}
        The documents to choose from: the question's own, or those of all `questions`.
    top_k : int or None
        How many; None for all, ranked.
    published : bool
        Words and documents as in the published tables (see `Corpus`).
    embed : callable, optional
        For "embed": from a list of texts to an array of shape (texts, d).
    truncate_dim : int, optional
        For "embed": only the first so many dimensions.
    graph : {"ace", "ace_bridge"}, optional
        Score the claims and entities of an `EvidenceGraph` instead of whole paragraphs, and walk it.
    nodes : int
        How many nodes of the graph are walked at most.

    Returns
    -------
    callable
        From a question to its documents, best first.

    Raises
    ------
    ValueError
        For another word, if "embed" lacks `embed`, or if "none" is asked for the whole file.
    ImportError
        If "bm25" lacks bm25s (extra `eval`).
    """
    check_retriever(retriever, pool=pool, graph=graph, embeds=embed is not None)
    tokenize = ascii_words if published else words

    def index(texts: list[str]) -> Bm25 | WordCosine | EmbeddingCosine:
        if retriever == "bm25":
            return Bm25(texts, tokenize)
        if retriever == "embed" and embed is not None:
            return EmbeddingCosine(texts, embed, truncate_dim)
        return WordCosine(texts, tokenize, idf=retriever == "tfidf")

    def ranked(corpus: Corpus) -> Retrieve:
        documents = corpus.documents
        if retriever == "none":
            return lambda question: list(documents)
        if graph is not None:
            walked = EvidenceGraph(documents, index)
            return lambda question: walked.retrieve(question.question, top_k, nodes=nodes, bridge=graph == "ace_bridge")
        whole = index([document.text for document in documents])
        return lambda question: [documents[i] for i in whole.top(question.question, top_k)]

    if pool == "file":
        return ranked(Corpus(questions, merge_titles=published))
    return lambda question: ranked(Corpus([question], merge_titles=published))(question)


def check_retriever(retriever: str, *, pool: str, graph: str | None, embeds: bool) -> None:
    """Refuse words that `by_retriever` does not know, or that do not go together; arguments as there."""
    one_of("retriever", retriever, RETRIEVERS)
    if one_of("pool", pool, POOLS) == "file" and retriever == "none":
        raise ValueError("retriever 'none' must have pool 'own', got 'file': each question would get the whole file")
    if retriever == "embed" and not embeds:
        raise ValueError("retriever 'embed' must have embed, a callable from a list of texts to vectors, got None")
    if graph is not None and one_of("graph", graph, GRAPHS) and retriever == "none":
        raise ValueError("graph needs a retriever that scores texts, got 'none'")


def by_run(
    run: Mapping[str, Sequence[str]],
    questions: Sequence[Question],
    *,
    pool: str | None,
    top_k: int | None,
    published: bool = False,
) -> Retrieve:
    """Take the documents from a run.

    Parameters
    ----------
    run : mapping of str to sequence of str
        See `read_run`.
    questions : sequence of Question
        All questions of a file, those outside the run included.
    pool : {"own", "file"} or None
        Where the run's documents are looked up; None for the question's own paragraphs if they hold the documents of
        every question, else the file's.
    top_k, published
        As for `by_retriever`.

    Returns
    -------
    callable
        From a question of the run to its documents, best first. A ValueError for a document that is not in the pool.
    """
    meant = [question for question in questions if question.id in run]

    def own(question: Question) -> Corpus:
        return Corpus([question], merge_titles=published)

    if pool is not None:
        one_of("pool", pool, POOLS)
    else:
        held = all(all(name in corpus for name in run[question.id]) for question in meant if (corpus := own(question)))
        pool = "own" if held else "file"
    whole: Corpus | None = None
    if pool == "file":
        # A merged title has the text of the last paragraph, and the run's own questions decide which that is.
        others = [question for question in questions if question.id not in run]
        whole = Corpus([*others, *meant], merge_titles=published)

    def retrieve(question: Question) -> list[Document]:
        corpus = own(question) if whole is None else whole
        found: dict[Document, None] = {}
        for name in run[question.id][:top_k]:
            if name not in corpus:
                where = "the question's own paragraphs" if whole is None else "the paragraphs of the file"
                raise ValueError(f"expected documents of the run among {where}, got {name!r}")
            found.update(dict.fromkeys(corpus.find(name)))
        return list(found)

    return retrieve


class Bm25:
    """BM25 over texts, by bm25s: method "lucene", k1 = 1.5, b = 0.75.

    Its idf, ln(1 + (N - n + 0.5) / (n + 0.5)), is never negative, so a term that every text holds still counts.

    Parameters
    ----------
    texts : sequence of str, length n
    tokenize : callable
        From a text to its tokens; used for the query too.

    Raises
    ------
    ImportError
        If bm25s is not installed.

    References
    ----------
    X. H. Lù (2024), "BM25S: Orders of magnitude faster lexical search via eager sparse scoring".
    """

    def __init__(self, texts: Sequence[str], tokenize: Callable[[str], Sequence[str]]) -> None:
        try:
            import bm25s
        except ImportError as error:
            raise ImportError("BM25 retrieval needs bm25s: pip install 'isinglass[eval]'") from error
        self._tokenize = tokenize
        self._size = len(texts)
        tokens = [list(tokenize(text)) for text in texts]
        # bm25s cannot index texts without a single token, nor score a query without one; both score 0 everywhere.
        self._index: Any = None
        if any(tokens):
            self._index = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
            self._index.index(tokens, show_progress=False)

    def scores(self, query: str) -> npt.NDArray[np.float32]:
        """Score of every text, shape (n,), >= 0."""
        tokens = [token for token in self._tokenize(query) if self._index and token in self._index.vocab_dict]
        if not tokens:
            return np.zeros(self._size, dtype=np.float32)
        return np.asarray(self._index.get_scores(tokens), dtype=np.float32)

    def top(self, query: str, k: int | None) -> list[int]:
        """The `k` best texts, best first, ties by position; all of them for None or where there are fewer."""
        return best(self.scores(query), k)


class WordCosine:
    """Cosine of word counts, or of words weighted by their rarity (TF-IDF).

    Parameters
    ----------
    texts : sequence of str, length n
    tokenize : callable
        From a text to its tokens; used for the query too.
    idf : bool
        Weigh each count by ln((1 + n) / (1 + df)) + 1, df the texts that hold the word.

    References
    ----------
    G. Salton and C. Buckley (1988), "Term-weighting approaches in automatic text retrieval".
    """

    def __init__(self, texts: Sequence[str], tokenize: Callable[[str], Sequence[str]], *, idf: bool) -> None:
        self._tokenize = tokenize
        self._size = len(texts)
        self._number: dict[str, int] = {}
        counted = [Counter(self._number.setdefault(word, len(self._number)) for word in tokenize(t)) for t in texts]
        row = np.repeat(np.arange(len(texts)), [len(counts) for counts in counted])
        word = np.fromiter((w for counts in counted for w in counts), dtype=np.int64, count=len(row))
        count = np.fromiter((c for counts in counted for c in counts.values()), dtype=np.float64, count=len(row))
        held = np.bincount(word, minlength=len(self._number))
        self._idf = np.log((1 + len(texts)) / (1 + held)) + 1 if idf else np.ones(len(held))
        weight = count * self._idf[word]
        norm = np.sqrt(np.bincount(row, weights=weight**2, minlength=len(texts)))
        order = np.argsort(word, kind="stable")
        self._start = np.concatenate([[0], np.cumsum(held)])
        self._row, self._weight = row[order], weight[order] / norm[row[order]]

    def scores(self, query: str) -> npt.NDArray[np.float64]:
        """Cosine of the query with every text, shape (n,), >= 0; words of no text are left out of the query."""
        scores = np.zeros(self._size)
        asked = Counter(self._number[word] for word in self._tokenize(query) if word in self._number)
        for word, count in asked.items():
            held = slice(self._start[word], self._start[word + 1])
            scores[self._row[held]] += count * self._idf[word] * self._weight[held]
        norm = np.sqrt(sum((count * self._idf[word]) ** 2 for word, count in asked.items()))
        return scores / norm if norm else scores

    def top(self, query: str, k: int | None) -> list[int]:
        """The `k` best texts, best first, ties by position; all of them for None or where there are fewer."""
        return best(self.scores(query), k)


class EmbeddingCosine:
    """Cosine of embeddings.

    Parameters
    ----------
    texts : sequence of str, length n
    embed : callable
        From a list of texts to an array of shape (texts, d), finite.
    truncate_dim : int, optional
        Use only the first so many dimensions.

    Raises
    ------
    ValueError
        If `embed` returns another shape or numbers that are not finite.
    """

    def __init__(
        self, texts: Sequence[str], embed: Callable[[list[str]], Any], truncate_dim: int | None = None
    ) -> None:
        self._embed = embed
        self._truncate_dim = truncate_dim
        self._vectors = self._unit(list(texts)) if texts else None

    def scores(self, query: str) -> npt.NDArray[np.float64]:
        """Cosine of the query with every text, shape (n,)."""
        if self._vectors is None:
            return np.zeros(0)
        vector = self._unit([query])[0]
        if len(vector) != self._vectors.shape[1]:
            raise ValueError(f"embed must keep its width: expected {self._vectors.shape[1]}, got {len(vector)}")
        # Row by row sums, not one matrix product, so that a score does not depend on how many texts there are.
        cosine: npt.NDArray[np.float64] = np.einsum("nd,d->n", self._vectors, vector)
        return cosine

    def top(self, query: str, k: int | None) -> list[int]:
        """The `k` best texts, best first, ties by position; all of them for None or where there are fewer."""
        return best(self.scores(query), k)

    def _unit(self, texts: list[str]) -> npt.NDArray[np.float64]:
        vectors = np.asarray(self._embed(texts), dtype=np.float64)
        if vectors.ndim != 2 or len(vectors) != len(texts):
            raise ValueError(f"embed must return an array of shape ({len(texts)}, d), got {vectors.shape}")
        if not np.isfinite(vectors).all():
            raise ValueError("embed must return finite numbers, got nan or inf")
        vectors = vectors[:, : self._truncate_dim]
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1.0)


def best(scores: npt.NDArray[np.floating[Any]], k: int | None) -> list[int]:
    """Positions of the `k` highest scores, highest first, ties by position."""
    order: list[int] = np.argsort(-scores, kind="stable")[:k].tolist()
    return order
