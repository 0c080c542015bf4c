"""With `measure="p1"` and the stored runs, the packers give the published packers' tables to the digit.

The figures are those that the published code of Bala (2026) gives on the public questions of our data. Its packed rule
is called "naive" there; `packed` here.
"""

import pytest
from isinglass.experiments.evaluation import evaluate

# data set, pool, questions, recall@1 @2 @5, all_gold@1 @2 @5; then lines of budget, policy and the columns below.
TABLES = """
hotpotqa_dev own 958 0.3768 0.5799 0.7834 0.0000 0.2797 0.5939
96 packed 0.4050 0.4316 0.4708 0.1868 0.4382 1.2004 87.38 2.2056
96 focused 0.4499 0.4794 0.5146 0.2046 0.5575 0.9541 87.92 2.0762
96 mmr 0.4322 0.4605 0.4890 0.1660 0.5325 0.9739 87.99 2.1253
96 submodular 0.4551 0.4839 0.5470 0.2568 0.4695 1.4802 83.99 2.9196
128 packed 0.4843 0.5128 0.5569 0.2714 0.4014 1.6033 119.77 2.8100
128 focused 0.5365 0.5706 0.6101 0.3215 0.5156 1.2432 119.83 2.6221
128 mmr 0.5031 0.5350 0.5637 0.2568 0.4924 1.2808 119.96 2.6900
128 submodular 0.5209 0.5528 0.6331 0.3664 0.4338 1.9342 115.31 3.8079
160 packed 0.5230 0.5551 0.6216 0.3539 0.3704 2.0136 151.21 3.4019
160 focused 0.5919 0.6285 0.6639 0.4029 0.4697 1.5939 151.61 3.1754
160 mmr 0.5501 0.5840 0.6185 0.3361 0.4639 1.5324 151.53 3.2370
160 submodular 0.5595 0.5940 0.6759 0.4311 0.4045 2.3497 146.61 4.6493
224 packed 0.6159 0.6529 0.7265 0.5084 0.3249 2.7787 214.85 4.5271
224 focused 0.6576 0.6963 0.7244 0.4958 0.3956 2.2557 215.63 4.2203
224 mmr 0.6200 0.6585 0.6806 0.4290 0.4207 2.0480 215.43 4.3246
224 submodular 0.6263 0.6641 0.7495 0.5386 0.3671 2.9196 207.17 6.1378
hotpotqa_dev pooled 500 0.3660 0.5010 0.6700 0.0000 0.1800 0.4220
96 packed 0.3400 0.3543 0.3630 0.0980 0.3348 1.4800 87.52 2.2700
96 focused 0.4120 0.4319 0.4490 0.1280 0.4798 1.1220 87.73 2.1100
96 mmr 0.3820 0.4004 0.4000 0.0920 0.4384 1.2060 87.62 2.1780
96 submodular 0.4080 0.4277 0.4750 0.1740 0.4100 1.6760 84.17 2.9860
128 packed 0.3820 0.3983 0.4470 0.1500 0.3168 1.8960 119.41 2.8860
128 focused 0.4640 0.4864 0.5200 0.2060 0.4335 1.5060 119.63 2.6920
128 mmr 0.4360 0.4570 0.4770 0.1620 0.4138 1.5460 119.61 2.7880
128 submodular 0.4660 0.4885 0.5470 0.2480 0.3806 2.1820 114.47 3.8440
160 packed 0.4400 0.4591 0.5090 0.2140 0.2971 2.3260 150.74 3.4700
160 focused 0.4960 0.5178 0.5560 0.2500 0.3866 1.9220 150.94 3.2400
160 mmr 0.4740 0.4948 0.5120 0.2000 0.3814 1.8640 150.38 3.3100
160 submodular 0.4920 0.5136 0.5920 0.3120 0.3524 2.6180 146.40 4.6960
224 packed 0.5040 0.5262 0.6230 0.3580 0.2778 3.0740 214.24 4.6160
224 focused 0.5520 0.5765 0.6050 0.3240 0.3260 2.6320 214.57 4.3340
224 mmr 0.5440 0.5681 0.5700 0.2740 0.3459 2.4300 214.68 4.4560
224 submodular 0.5420 0.5660 0.6420 0.3800 0.3116 3.1960 204.88 6.1420
2wiki_dev own 442 0.3388 0.5232 0.7460 0.0000 0.1855 0.4593
160 packed 0.4548 0.4963 0.6007 0.2692 0.3856 2.6946 150.30 4.4299
160 focused 0.4615 0.5037 0.5882 0.2376 0.4308 2.4118 150.72 4.1697
160 mmr 0.4253 0.4642 0.5402 0.1878 0.4217 2.3756 150.78 4.2534
160 submodular 0.4796 0.5235 0.6635 0.3394 0.4338 2.6742 144.38 5.3891
2wiki_dev pooled 442 0.3150 0.4576 0.6103 0.0000 0.1493 0.2873
160 packed 0.3891 0.4247 0.5011 0.1946 0.2999 2.7081 151.41 4.1312
160 focused 0.3959 0.4321 0.4983 0.1584 0.3597 2.3371 151.67 3.8507
160 mmr 0.3891 0.4247 0.4559 0.1425 0.3479 2.3054 151.34 3.9140
160 submodular 0.4095 0.4469 0.5526 0.2285 0.3524 2.7557 145.42 5.1222
musique_dev own 329 0.1998 0.3300 0.5025 0.0000 0.0517 0.1672
160 packed 0.2036 0.2036 0.3376 0.0669 0.2613 2.2188 151.36 3.1733
160 focused 0.2340 0.2340 0.3468 0.0729 0.3043 1.9574 151.67 2.9453
160 mmr 0.2006 0.2006 0.3065 0.0578 0.2735 1.9088 151.45 3.0426
160 submodular 0.2492 0.2492 0.4121 0.1155 0.3019 2.6261 146.65 4.4407
musique_dev pooled 329 0.1702 0.2485 0.3333 0.0000 0.0182 0.0547
160 packed 0.1277 0.1277 0.2156 0.0213 0.1648 2.4377 148.60 3.0243
160 focused 0.1489 0.1489 0.2368 0.0274 0.2176 2.0456 148.29 2.8085
160 mmr 0.1307 0.1307 0.1978 0.0213 0.2074 1.7781 148.62 2.8511
160 submodular 0.1459 0.1459 0.2442 0.0304 0.2078 2.3495 141.34 4.0334
"""

COLUMNS = (
    "answer_in_context.p1",
    "answer_in_context.defined",
    "gold_doc_coverage",
    "all_gold_in_context",
    "gold_token_density",
    "distractor_docs",
    "tokens",
    "snippets",
)


def tables():
    found, rows = {}, {}
    for line in TABLES.split("\n")[1:-1]:
        first, second, *figures = line.split()
        if first.isdigit():
            rows[int(first), second] = figures
        else:
            rows = {}
            found[first, second] = (int(figures[0]), figures[1:], rows)
    return found


def shown(value, like):
    return f"{value:.{len(like.partition('.')[2])}f}"


def check(data, name, pool, budgets):
    questions, retrieval, rows = tables()[name, pool]
    evaluation = evaluate(
        data / "qa" / f"{name}.jsonl.gz",
        policies=["packed", "focused", "mmr", "submodular"],
        budgets=budgets,
        measure="p1",
        runs=[data / "runs" / f"{name}_{pool}_bm25.jsonl"],
    )
    assert len(evaluation.ids) == questions
    assert evaluation.skipped == ()
    for budget in budgets:
        for policy in ("packed", "focused", "mmr", "submodular"):
            means = evaluation.means(policy, budget)
            assert [shown(means[f"recall@{k}"], "0.0000") for k in (1, 2, 5)] == retrieval[:3]
            assert [shown(means[f"all_gold@{k}"], "0.0000") for k in (1, 2, 5)] == retrieval[3:]
            expected = rows[budget, policy]
            assert [shown(means[column], like) for column, like in zip(COLUMNS, expected)] == expected, policy


@pytest.mark.parametrize(("name", "pool"), tables())
def test_published_tables_at_160_tokens(data, name, pool):
    check(data, name, pool, [160])


@pytest.mark.full
@pytest.mark.parametrize(("name", "pool"), [key for key in tables() if key[0] == "hotpotqa_dev"])
def test_published_tables_at_other_budgets(data, name, pool):
    check(data, name, pool, [96, 128, 224])
