"""What there is to choose from: name -> ("module:attribute", one help line). Nothing here imports anything.

A policy is a builder whose keyword arguments are its options. An executor is a builder called with `slots` and
`cached`, whose other keyword arguments are its options; one with a `cost_model` of its own is billed by that.
"""

POLICIES = {
    "one-by-one": ("engines.policies:one_by_one", "1 slot; each request is served to its end"),
    "naive": ("engines.policies:naive", "1 slot, no KV cache: a full forward pass for every token"),
    "static": (
        "engines.policies:static",
        "batch=8, wait=none|full, max-wait=50ms, return=stream|end, until=N|global-max",
    ),
    "static-bucketed": ("engines.policies:static_bucketed", "batch=8, window=64: batches of similar lengths"),
    "continuous": ("engines.policies:continuous", "batch=8; requests join and leave after any step"),
    "chunked": ("engines.policies:chunked", "batch=8, budget-tokens=512 a step: prompts in chunks beside decodes"),
    "paged": (
        "engines.policies:paged",
        "batch=8, budget-tokens=2048, block-tokens=16, cache-tokens=N: preempts by recomputing",
    ),
    "decode-only": (
        "engines.policies:decode_only",
        "paged, and prompts come computed but for their last token: the decoding half of two pools",
    ),
    "speculative": (
        "engines.policies:speculative",
        "paged, draft-tokens=4 a decode, each right in accepted-fraction=0.7 of the cases",
    ),
    "shortest-first": ("engines.policies:shortest_first", "batch=8; continuous, the shortest answers first"),
    "priority": ("engines.policies:priority", "batch=8; continuous, classes in the schedule's order of them"),
}

EXECUTORS = {
    "cost": ("engines.cost:hash_executor", "computes nothing; its steps are billed by the cost model"),
    "roofline": ("engines.roofline:roofline", "computes nothing; billed as hardware=h100-sxm,model=llama-3.1-8b,tp=1"),
    "fitted": ("engines.cost:fitted_executor", "computes nothing; billed as costs=FILE.toml of `tokenload fit` says"),
    "tinygpt": ("engines.torch_executor:tinygpt_executor", "a 5.8 M parameter transformer in torch on this CPU"),
}
