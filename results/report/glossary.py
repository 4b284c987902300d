"""How each figure on the page is defined, in the terms of the field."""

OF_LATENCIES = (
    ("Latency", "Everything is measured from the scheduled arrival, never from the moment of sending. A failed "
                "request counts as infinite; a quantile that falls on one is shown as inf."),
    ("TTFT", "Time to first token: first token - scheduled arrival."),
    ("TPOT", "Time per output token of a request: (last - first delivery) / (tokens after the first delivery): a "
             "mean per request."),
    ("ITL", "Inter-token latency: every single gap between two consecutive deliveries of a request, over all "
            "requests."),
    ("Quantiles", "Hyndman and Fan's type 8 (median-unbiased). One with too few values behind it is not given: p99 "
                  "needs 100."),
    ("Output tok/s", "Output tokens delivered in the window / its length. Window: to the last scheduled arrival; in "
                     "a burst or a closed loop, to the last token."),
    ("Attainment", "Requests that meet every limit of the SLO / scheduled requests."),
    ("Goodput", "Requests that meet every limit of the SLO, per second of the window."),
)  # fmt: skip
OF_ENGINES = (
    ("The first text's ITL", "A mean per request: TPOT here."),
    ("Slot states", "In every step each slot is exactly one of: prefilling (its prompt is computed), decoding (it "
                    "yields a token), finished (its request has ended and the batch goes on), stalled (unfinished, no "
                    "work in this step), empty queued (empty while a request waits), idle (empty otherwise)."),
    ("wasted_slot_fraction", "finished / (prefilling + decoding + finished), in slot-steps, prefill steps included."),
    ("unused_slot_fraction", "1 - (prefilling + decoding) / all slot-steps."),
    ("padding_fraction", "1 - real / rectangle prompt tokens, over all prefills."),
    ("held_back_fraction", "Time with requests waiting while no step runs / run time."),
    ("slot_time_share", "The six states weighted by the length of each step; they add up to 1."),
)  # fmt: skip
TOLD_BY_STEPS = ("Slot states", "wasted_slot_fraction", "padding_fraction", "slot_time_share")
OF_STEPS = tuple(row for row in OF_ENGINES if row[0] in TOLD_BY_STEPS)
"""Those that a server's own steps have too; its unused slots are defined below."""
OF_OWN_STEPS = (
    ("The server's own steps", "What each slot did in every step, as the server wrote it down and told it after the "
                               "run; only tokenload serve does. Its times are this host's clock where the server "
                               "runs here."),
)  # fmt: skip
OF_ALL = (
    ("In flight", "Requests that are due and have not ended."),
    ("OVERLOADED", "In flight grew for the whole run: waiting times then measure the run's length. They are "
                   "bracketed, drawn hollow, and kept out of the verdicts."),
    ("Clock", "charged: steps really compute, and their own CPU time is billed to a virtual clock; modelled: a cost "
              "model bills them; real: the wall."),
)  # fmt: skip
OF_SERVERS = (
    ("unused_slot_fraction", "1 - slot-steps that made a token / (steps x slots), from two scrapes of the server's "
                             "counters."),
    ("TTFT net", "First token - hand-over to the connection: TTFT without the client's lateness and, under a cap, "
                 "without the wait for a place."),
    ("ICL", "Inter-chunk latency: every gap between two token-bearing events, however many tokens they hold. It is "
            "ITL only where each event holds one token."),
    ("Wait to head", "From the last byte of the request that the kernel took to the end of the reply's head."),
    ("Tail", "From the last token to the end of the reply. No other latency holds it."),
    ("Closed loop", "A fixed number of users, each of whom sends when the answer before has come: the load falls when "
                    "the server slows down, so its latencies are not those of an open system."),
    ("Capped", "An open schedule of which at most so many requests are in flight. Latency still begins at the "
               "schedule."),
    ("Calibration", "This client against a server that computes nothing and says when it wrote each event: how late "
                    "its stamps are, and how many events a second it carries."),
    ("Not observable", "The server does not tell it, and nothing on this page guesses it."),
)  # fmt: skip


def definitions(engines: bool, servers: bool, own_steps: bool = False) -> tuple[tuple[str, str], ...]:
    """Of what stands on the page; `own_steps`: those of a server among it."""
    of_slots = OF_ENGINES if engines else OF_STEPS if own_steps else ()
    of_servers = (*OF_SERVERS, *(OF_OWN_STEPS if own_steps else ())) if servers else ()
    return (*OF_LATENCIES, *of_slots, *OF_ALL, *of_servers)
