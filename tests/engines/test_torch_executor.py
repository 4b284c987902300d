"""The torch executor: batching, padding, caching and their traps change no token that anybody receives."""

import functools
import json
import random
from dataclasses import dataclass, field, replace

import pytest

torch = pytest.importorskip("torch", reason="the tinygpt executor needs torch")

from engines.attention import eager, mask_ceiling, mask_scores, sdpa  # noqa: E402
from engines.batch_invariant import check_row_invariance, tiled_linear  # noqa: E402
from engines.engine import Request, SamplingParams  # noqa: E402
from engines.fused_layers import FusedLayers, whole_linear  # noqa: E402
from engines.joint_prefill import padded_mask, padded_positions  # noqa: E402
from engines.policies import Row, continuous, naive, one_by_one, static  # noqa: E402
from engines.sampling import choose, uniform_of  # noqa: E402
from engines.slots import Batch, SlotEngine  # noqa: E402
from engines.tinygpt import TinyGPT, TinyGPTConfig  # noqa: E402
from engines.torch_executor import TorchExecutor, tinygpt_executor  # noqa: E402

LOGIT_TOLERANCE = 1e-4
"""Also the top-2 margin below which another token is no error."""
SMALL = TinyGPTConfig(layers=2, width=64, heads=4, kv_heads=2, ffn=128)


@pytest.fixture(scope="module")
def model():
    return TinyGPT()


@pytest.fixture(scope="module")
def two_layers():
    return TinyGPT(TinyGPTConfig(layers=2))


@pytest.fixture(scope="module")
def learned():
    return TinyGPT(TinyGPTConfig(layers=2, positions="learned", context_tokens=128))


@dataclass
class Served:
    """What one request got: its tokens, and the logits each was chosen from."""

    tokens: list = field(default_factory=list)
    logits: list = field(default_factory=list)

    def same_bits(self, other):
        return torch.equal(torch.stack(self.logits), torch.stack(other.logits)) and self.tokens == other.tokens


class Watched:
    """An executor that keeps by request what it computes."""

    def __init__(self, executor):
        self.context_tokens, self.eos_token_id = executor.context_tokens, executor.eos_token_id
        self.served = {}
        self.after_end = {}
        self._executor = executor

    def run(self, batch):
        tokens = self._executor.run(batch)
        for row, token, logits in zip(batch.rows, tokens, self._executor.last_logits, strict=True):
            if row.finished:
                self.after_end.setdefault(row.request_id, []).append(logits.clone())
                continue
            served = self.served.setdefault(row.request_id, Served())
            served.tokens.append(token)
            served.logits.append(logits.clone())
        return tokens

    def describe(self):
        return self._executor.describe()


def asks(*prompts_and_outputs, **sampling):
    """Requests from (prompt, output tokens)."""
    return [
        Request(number, list(prompt), SamplingParams(outputs, **sampling), 0)
        for number, (prompt, outputs) in enumerate(prompts_and_outputs)
    ]


def random_asks(drawn, requests=None):
    """Prompts of 3 to 64 tokens, outputs of 4 to 32, 2 to 8 requests unless said."""
    pairs = [
        ([drawn.randrange(256) for _ in range(drawn.randint(3, 64))], drawn.randint(4, 32))
        for _ in range(requests or drawn.randint(2, 8))
    ]
    return asks(*pairs)


@functools.lru_cache(maxsize=32)
def used_executor(model, slots):
    """Made once and used by many cases: what others have left in it must not matter."""
    return TorchExecutor(model, slots)


def serve(model, policy, requests, arrival_steps=None, executor=None, **options):
    """What the executor has computed; each request is handed over before the step of its arrival."""
    watched = Watched(executor or TorchExecutor(model, policy.slots, cached=policy.cached, **options))
    engine = SlotEngine(policy, watched)
    due = sorted(zip(arrival_steps or [0] * len(requests), requests, strict=True), key=lambda pair: pair[0])
    step = 0
    while due or engine.has_work():
        while due and due[0][0] <= step:
            engine.add_request(due.pop(0)[1])
        if engine.has_work():
            engine.step(0)
        step += 1
    return watched


def alone(model, requests, **options):
    return serve(model, one_by_one(), requests, **options).served


def compare(batched, reference):
    """Whether a token differs, where the reference's two likeliest are nearly tied; anything else is an error."""
    for mine, wanted, logits, expected in zip(
        batched.tokens, reference.tokens, batched.logits, reference.logits, strict=True
    ):
        assert (logits - expected).abs().max() < LOGIT_TOLERANCE
        if mine != wanted:
            first, second = expected.topk(2).values.tolist()
            assert first - second < LOGIT_TOLERANCE
            return True
    return False


def assert_equal_alone(model, policy, requests, arrival_steps=None, **options):
    """The number of near-ties that fell the other way."""
    reference = alone(model, requests, **options)
    batched = serve(model, policy, requests, arrival_steps, **options).served
    assert batched.keys() == reference.keys()
    return sum(compare(batched[number], reference[number]) for number in reference)


KNOWN_PROMPT = b"static batching"
KNOWN_TOKENS = [112, 101, 160, 203, 129, 7, 187, 96, 37, 168, 36, 254, 34, 35, 100, 55]
BESIDE_LONG = asks((b"a" * 24, 6), (b"bbb", 6), (b"to be or not to be", 6))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("policy", [naive(), one_by_one(), static(3), continuous(2)], ids=lambda policy: policy.name)
def test_every_policy_gives_the_tokens_of_the_model_spelled_out(model, policy, attention):
    """With a cache and without, batched and alone, the tokens are those of the plain forward pass."""
    served = serve(model, policy, BESIDE_LONG, attention=attention).served
    for request in BESIDE_LONG:
        text = torch.tensor([[*request.prompt_token_ids, *served[request.request_id].tokens]])
        with torch.inference_mode():
            logits = model(text)[0, len(request.prompt_token_ids) - 1 : -1]
        margins = logits.topk(2).values.diff().abs()
        assert margins.min() > 1e-3, "these prompts were picked because nothing is close"
        assert served[request.request_id].tokens == logits.argmax(-1).tolist()
        assert torch.allclose(torch.stack(served[request.request_id].logits), logits, atol=LOGIT_TOLERANCE)


@pytest.mark.parametrize("sizes", [{}, {"kv_heads": 4}, {"positions": "learned"}, {"layers": 3, "width": 96}])
def test_fused_weights_compute_what_the_model_computes(sizes):
    """Whatever the sizes, and with gains that are not 1, an executor's logits are the plain forward pass's."""
    model = TinyGPT(replace(SMALL, context_tokens=64, **sizes))
    drawn = torch.Generator().manual_seed(1)
    for name, weight in model.named_parameters():
        if "norm" in name:
            weight.data.uniform_(0.5, 2, generator=drawn)
    served = serve(model, one_by_one(), asks((b"fused or not", 5))).served[0]
    with torch.inference_mode():
        logits = model(torch.tensor([[*b"fused or not", *served.tokens[:-1]]]))[0, -5:]
    assert torch.allclose(torch.stack(served.logits), logits, atol=LOGIT_TOLERANCE)


def test_greedy_tokens_are_the_known_ones(model):
    """A change of the model, its weights or its arithmetic shows in these, of which none was a close call."""
    served = serve(model, one_by_one(), asks((KNOWN_PROMPT, len(KNOWN_TOKENS)))).served[0]
    assert served.tokens == KNOWN_TOKENS
    assert torch.stack(served.logits).topk(2).values.diff().abs().min() >= 0.01


def check_cases(cases, models):
    """Static and continuous equal alone; prints how many near-ties fell the other way."""
    ties = tokens = 0
    for case in cases:
        drawn = random.Random(case)
        requests = random_asks(drawn)
        batch, chosen = len(requests), models[case % len(models)]
        reference = serve(chosen, one_by_one(), requests, executor=used_executor(chosen, 1)).served
        for policy in (static(batch), continuous(max(2, batch // 2))):
            served = serve(chosen, policy, requests, executor=used_executor(chosen, policy.slots)).served
            ties += sum(compare(served[number], reference[number]) for number in reference)
        tokens += sum(len(one.tokens) for one in reference.values())
    print(f"{len(cases)} cases, {tokens} tokens: {ties} near-ties fell the other way")


def test_40_random_cases_equal_alone(model, two_layers):
    """Static and continuous give every request the tokens it gets alone, but for near-ties; one case in ten on
    the whole model, the others on two of its layers."""
    check_cases(range(40), [model, *[two_layers] * 9])


@pytest.mark.slow
def test_500_random_cases_equal_alone(model):
    """The same on the whole model."""
    check_cases(range(1000, 1500), [model])


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("policy", [static(4), continuous(3)], ids=lambda policy: policy.name)
def test_who_shares_the_batch_changes_no_bit(two_layers, policy, attention):
    """With all lengths equal, other texts in the other rows leave a row's logits bitwise as they are."""
    requests = random_asks(random.Random(5), 4)
    before = serve(two_layers, policy, requests, attention=attention).served
    for kept in range(4):
        changed = [
            request if request.request_id == kept else replace(request, prompt_token_ids=request.prompt_token_ids[::-1])
            for request in requests
        ]
        after = serve(two_layers, policy, changed, attention=attention).served
        assert after[kept].same_bits(before[kept])
        assert not after[(kept + 1) % 4].same_bits(before[(kept + 1) % 4])


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_the_padding_token_changes_no_bit(two_layers, attention):
    """Padding reaches nobody: another pad id gives bitwise the same logits."""
    requests = random_asks(random.Random(6), 6)
    one, other = (serve(two_layers, static(6), requests, pad=pad, attention=attention).served for pad in (0, 200))
    assert all(one[number].same_bits(other[number]) for number in one)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_batch_invariant_gives_the_bits_of_the_same_request_alone(model, two_layers, attention):
    """In this mode a request's logits are bitwise those it has alone, whoever joins and leaves around it."""
    for case in range(4):
        chosen = model if case == 0 else two_layers
        drawn = random.Random(case)
        requests = random_asks(drawn, 7)
        joins = [drawn.randrange(40) for _ in requests]
        options = {"batch_invariant": True, "attention": attention}
        reference = alone(chosen, requests, **options)
        batched = serve(chosen, continuous(4), requests, joins, **options).served
        assert all(batched[number].same_bits(reference[number]) for number in reference)


def test_batch_invariant_is_refused_where_a_rows_place_decides_its_bits():
    """Arithmetic that gives one row of a product other bits than the next is found out before it is used."""

    def uneven(x, weight, out, base):
        whole_linear(x, weight, out, base)
        out[0][-1] += 1e-6

    layers = FusedLayers(TinyGPT(SMALL))
    with torch.inference_mode():
        check_row_invariance(layers, lambda x, w, out, base: out[0].zero_(), 8)
        with pytest.raises(ValueError, match="batch-invariant cannot be had here") as refusal:
            check_row_invariance(layers, uneven, 8)
    assert "\n" not in str(refusal.value)


def test_a_tiled_product_is_the_products_of_its_tiles():
    """Every product has as many rows as a tile, so how many tiles there are decides no bit."""
    drawn = torch.Generator().manual_seed(0)
    x, weight = torch.randn(640, 1024, generator=drawn), (torch.randn(1024, 256, generator=drawn),)
    base = torch.randn(640, 256, generator=drawn)
    together, apart = torch.empty_like(base), torch.empty_like(base)
    tiled_linear(32)(x, weight, (together,), (base,))
    for rows in torch.arange(640).split(32):
        torch.addmm(base[rows], x[rows], weight[0], out=apart[rows[0] : rows[-1] + 1])
    assert torch.equal(together, apart)


def padded_case(lengths=(3, 24)):
    """Random scaled queries, keys, values of a left-padded rectangle, as attention wants them, and its mask."""
    drawn = torch.Generator().manual_seed(0)
    texts, columns = len(lengths), max(lengths)
    queries, keys, values = (torch.randn(texts, 1, columns, 8, generator=drawn) for _ in range(3))
    return queries, keys.transpose(2, 3), values, padded_mask(torch.tensor(lengths), columns)


def test_a_short_prompt_beside_a_long_one_keeps_its_tokens(model):
    """The trap of -inf: a padding query is forbidden everything, and its NaN would reach the row it pads."""
    served = serve(model, static(2), asks((b"a" * 24, 6), (b"bbb", 6))).served[1]
    assert torch.stack(served.logits).isfinite().all()
    assert served.tokens == alone(model, asks((b"bbb", 6)))[0].tokens
    assert len(set(served.tokens)) > 1


def test_minus_infinity_poisons_eager_attention_and_not_sdpa():
    """With -inf for a floor the padding's rows are NaN in written-out attention; torch's kernel hides the trap."""
    queries, keys, values, forbidden = padded_case()
    poisoned = eager(queries, keys, values, forbidden, floor=-torch.inf)
    assert poisoned[0, 0, :21].isnan().all()
    assert poisoned[0, 0, 21:].isfinite().all()
    assert eager(queries, keys, values, forbidden).isfinite().all()
    assert sdpa(queries, keys, values, forbidden).isfinite().all()
    assert torch.allclose(
        eager(queries, keys, values, forbidden)[:, :, 21:], sdpa(queries, keys, values, forbidden)[:, :, 21:], atol=1e-6
    )


def test_masking_twice_is_masking_once():
    """The trap of two masks: floors that are added overflow to -inf, floors that are set do not."""
    forbidden = torch.tensor([[True, True, True], [True, False, True]])
    floor = torch.finfo(torch.float32).min
    added = torch.zeros(2, 3) + 2 * torch.where(forbidden, floor, 0.0)
    assert added.softmax(-1)[0].isnan().all()
    once = mask_scores(torch.zeros(2, 3), mask_ceiling(forbidden))
    twice = mask_scores(once.clone(), mask_ceiling(forbidden))
    assert torch.equal(twice, once)
    assert twice.softmax(-1).tolist() == [pytest.approx([1 / 3] * 3), [0, 1, 0]]


def test_positions_count_from_a_texts_first_token(learned):
    """The position bug: with learned positions an index into the padded rectangle in place of the position changes
    what the short texts get. With rotary positions a prefill would not show it: they only know distances."""
    assert padded_positions(torch.tensor([2, 4]), 4).tolist() == [[0, 0, 0, 1], [0, 1, 2, 3]]
    for policy in (static(3), continuous(2)):
        assert assert_equal_alone(learned, policy, BESIDE_LONG) == 0


def test_a_finished_row_is_computed_at_its_last_position_and_does_not_grow(two_layers):
    """A row that waits for its batch to end gives the logits of its last token again and again."""
    requests = asks((b"short", 1), (b"a bit longer", 4), (b"x" * 9, 30))
    watched = serve(two_layers, static(3), requests)
    for number, repeats in ((0, 29), (1, 26)):
        again = torch.stack(watched.after_end[number])
        assert len(again) == repeats
        assert torch.allclose(again, watched.served[number].logits[-1].expand_as(again), atol=LOGIT_TOLERANCE)


def test_a_context_may_be_filled_to_its_last_token():
    """Prompt and output together may be as long as the context, also beside a row that goes on."""
    model = TinyGPT(replace(SMALL, context_tokens=40))
    requests = asks((b"y" * 36, 4), (b"z" * 10, 30), (b"w" * 3, 37))
    assert assert_equal_alone(model, static(3), requests) == 0


def row_of(request):
    """As an engine makes it, in the slot of the request's number."""
    number, prompt_tokens = request.request_id, len(request.prompt_token_ids)
    return Row(request, number, number, prompt_tokens, request.params.max_tokens, frozenset(), joined_step=0)


def test_a_sequence_that_sits_out_a_step_keeps_its_cache(two_layers):
    """Rows are moved about in the cache as others come and go; nobody's keys and values get lost by it."""
    drawn = random.Random(8)
    requests = asks(*[([drawn.randrange(256) for _ in range(tokens)], 12) for tokens in (9, 10, 4, 8)])
    reference = alone(two_layers, requests)
    executor = TorchExecutor(two_layers, slots=4)
    rows = [row_of(request) for request in requests]
    executor.run(Batch("prefill", rows))
    for row in rows:
        row.output_tokens = 1
    for turn in ((0, 1, 2, 3), (0, 1, 2, 3), (3, 1), (2,), (0, 1, 2, 3), (3, 0), (1, 2), (2, 1, 0), (0, 1, 2, 3)):
        executor.run(Batch("decode", [rows[number] for number in turn]))
        for number, logits in zip(turn, executor.last_logits, strict=True):
            expected = reference[number].logits[rows[number].output_tokens]
            assert torch.allclose(logits, expected, atol=LOGIT_TOLERANCE)
            rows[number].output_tokens += 1


@pytest.mark.parametrize("size", [SMALL, pytest.param(TinyGPTConfig(), marks=pytest.mark.slow)], ids=["small", "whole"])
def test_a_long_prompt_beside_a_long_answer_fits_the_context(size):
    """2,000 + 20 tokens beside 30 + 1,000 run in a context of 2,048, because padding is dropped after prefill."""
    drawn = random.Random(9)
    prompts = [[drawn.randrange(256) for _ in range(tokens)] for tokens in (2000, 30)]
    ties = assert_equal_alone(TinyGPT(size), static(2), asks((prompts[0], 20), (prompts[1], 1000)))
    print(f"{ties} near-ties fell the other way")


def test_a_draw_depends_on_seed_and_position_alone(two_layers):
    """Sampled tokens are the same alone and in any batch, differ by seed, and near temperature 0 are the greedy."""
    prompts = [(b"sample", 12), (b"me", 12), (b"please", 12)]
    seeded = asks(*prompts, temperature=1.0, seed=5)
    drawn = alone(two_layers, seeded)
    for policy in (static(3), continuous(2)):
        served = serve(two_layers, policy, seeded).served
        assert all(served[number].tokens == drawn[number].tokens for number in drawn)
    assert alone(two_layers, asks(*prompts, temperature=1.0, seed=6))[0].tokens != drawn[0].tokens
    cold = alone(two_layers, asks(*prompts, temperature=1e-6, seed=5))
    assert cold[0].tokens == alone(two_layers, asks(*prompts))[0].tokens


@pytest.mark.parametrize("seed", [None, 3])
def test_draws_have_the_softmaxs_frequencies(seed):
    """Over 4,000 requests, each its own seed, and over 4,000 positions of one seed, each token is drawn as often as
    its probability says, within 4 standard errors."""
    scores, draws = torch.tensor([0.0, 1.0, -torch.inf, 2.0]), 4000
    rows = [row_of(request) for request in asks(*[(b"a", draws)] * draws, temperature=2.0, seed=seed)]
    if seed is not None:
        for position, row in enumerate(rows):
            row.output_tokens = position
    counts = torch.tensor(choose(scores.expand(draws, 4), rows)).bincount(minlength=4)
    expected = (scores / 2).softmax(-1)
    assert ((counts / draws - expected).abs() <= 4 * (expected * (1 - expected) / draws).sqrt()).all()
    assert len({uniform_of(one, position) for one in range(40) for position in range(40)}) == 1600


def test_the_description_says_what_decides_tokens_and_how_steps_are_billed():
    """It goes into the stamp: plain JSON, with the weights' hash; several threads are billed by the wall clock."""
    options = {"layers": 1, "width": 64, "heads": 4, "ffn": 128, "context": 64}
    told = json.loads(json.dumps(tinygpt_executor(2, attention="sdpa", pad=7, **options).describe()))
    assert told["name"] == "tinygpt"
    assert told["config"]["width"] == 64
    assert len(told["weights_sha256"]) == 64
    assert told["parameters"] == TinyGPT(TinyGPTConfig(**told["config"])).parameter_count()
    assert (told["attention"], told["pad_id"], told["eos_token_id"], told["dtype"]) == ("sdpa", 7, 257, "float32")
    assert (told["reads_prompts"], told["computes_tokens"], told["threads"]) == (True, True, 1)
    assert told["cost_source"] == "thread_cpu"
    assert tinygpt_executor(2, threads=2, **options).describe()["cost_source"] == "wall"


def test_each_step_runs_on_the_threads_asked_for(two_layers):
    """torch's number of threads belongs to the process; an executor sets its own before it computes."""
    executor = TorchExecutor(two_layers, slots=1)
    torch.set_num_threads(2)
    executor.run(Batch("prefill", [row_of(request) for request in asks((b"a", 1))]))
    assert torch.get_num_threads() == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"pad": 260}, "pad=260"),
        ({"threads": 0}, "threads"),
        ({"slots": 0}, "slots"),
        ({"batch_invariant": True, "threads": 2}, "batch-invariant needs threads=1"),
    ],
)
def test_options_that_cannot_be_had_are_refused_in_one_line(options, named):
    """The line names the option."""
    with pytest.raises(ValueError, match=named) as refusal:
        TorchExecutor(TinyGPT(SMALL), **{"slots": 2, **options})
    assert "\n" not in str(refusal.value)
