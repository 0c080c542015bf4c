"""A question with three paragraphs, and a supporting fact that points past the end of its paragraph."""

LAKE = {
    "id": "lake",
    "question": "Which river feeds Blue Lake?",
    "answers": ["Grey Burn"],
    "paragraphs": [
        {"title": "Blue Lake", "sentences": ["Blue Lake lies in the hills.", "The river Grey Burn feeds it."]},
        {"title": "Old Mill", "sentences": ["Old Mill is a ruin by the sea.", "", "It has a wheel."]},
        {"title": "Grey Burn", "sentences": ["Grey Burn is a river.", "It is short."]},
    ],
    "gold": ["Blue Lake", "Grey Burn"],
    "gold_idx": [0, 2],
    "supporting_facts": [["Blue Lake", 1], ["Grey Burn", 0], ["Grey Burn", 9]],
}
