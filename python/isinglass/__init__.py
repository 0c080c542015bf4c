"""isinglass: given retrieved passages and a budget, pick the set that serves the reader best, and prove how good it is.

Data flows one way: texts -> `measure` -> a problem -> `solve` on a back end -> `Result` -> `diagnosis`.
"""

from isinglass.backends import Availability, BackendError, available_backends
from isinglass.certificate import certify
from isinglass.diagnosis.diagnosing import Diagnoses, Diagnosis, diagnose
from isinglass.problems.device import DeviceArray
from isinglass.problems.evidence import EvidencePenalties, EvidenceProblem, EvidenceWeights
from isinglass.problems.packing import PackingProblem, PackingWeights
from isinglass.problems.qubo import Qubo
from isinglass.problems.term import Term
from isinglass.quantization import Quantized, quantize
from isinglass.result import Certificate, Result, Results
from isinglass.selecting import Selected, aselect, select
from isinglass.solving import solve, solve_many
from isinglass.version import __version__

__all__ = [
    "Availability",
    "BackendError",
    "Certificate",
    "DeviceArray",
    "Diagnoses",
    "Diagnosis",
    "EvidencePenalties",
    "EvidenceProblem",
    "EvidenceWeights",
    "PackingProblem",
    "PackingWeights",
    "Quantized",
    "Qubo",
    "Result",
    "Results",
    "Selected",
    "Term",
    "__version__",
    "aselect",
    "available_backends",
    "certify",
    "diagnose",
    "quantize",
    "select",
    "solve",
    "solve_many",
]
