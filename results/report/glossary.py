"""How each figure on the page is defined, in the terms of the field."""

DEFINITIONS = (
    ("Latency", "Everything is measured from the scheduled arrival, never from the moment of sending. A failed "
                "request counts as infinite; a quantile that falls on one is shown as inf."),
    ("TTFT", "Time to first token: first token - scheduled arrival."),
    ("TPOT", "Time per output token of a request: (last - first delivery) / (tokens after the first delivery): a "
             "mean per request, which the first text calls ITL."),
    ("ITL", "Inter-token latency: every single gap between two consecutive deliveries of a request, over all "
            "requests."),
    ("Quantiles", "Hyndman and Fan's type 8 (median-unbiased). One with too few values behind it is not given: p99 "
                  "needs 100."),
    ("Output tok/s", "Output tokens delivered in the window / its length. Window: to the last scheduled arrival; in "
                     "a burst or a closed loop, to the last token."),
    ("Attainment", "Requests that meet every limit of the SLO / scheduled requests."),
    ("Goodput", "Requests that meet every limit of the SLO, per second of the window."),
    ("Slot states", "In every step each slot is exactly one of: prefilling (its prompt is computed), decoding (it "
                    "yields a token), finished (its request has ended and the batch goes on), stalled (unfinished, no "
                    "work in this step), empty queued (empty while a request waits), idle (empty otherwise)."),
    ("wasted_slot_fraction", "finished / (prefilling + decoding + finished), in slot-steps, prefill steps included."),
    ("unused_slot_fraction", "1 - (prefilling + decoding) / all slot-steps."),
    ("padding_fraction", "1 - real / rectangle prompt tokens, over all prefills."),
    ("held_back_fraction", "Time with requests waiting while no step runs / run time."),
    ("slot_time_share", "The six states weighted by the length of each step; they add up to 1."),
    ("In flight", "Requests that are due and have not ended."),
    ("OVERLOADED", "In flight grew for the whole run: waiting times then measure the run's length. They are "
                   "bracketed, drawn hollow, and kept out of the verdicts."),
    ("Clock", "charged: steps really compute, and their own CPU time is billed to a virtual clock; modelled: a cost "
              "model bills them; real: the wall."),
)  # fmt: skip
