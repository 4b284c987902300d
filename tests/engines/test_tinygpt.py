"""The model: its weights are the published ones to the bit, and its parts do what their names say."""

import hashlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the tinygpt executor needs torch")

from engines.tinygpt import TinyGPT, TinyGPTConfig, rope_angles, rotated  # noqa: E402


@pytest.fixture(scope="module")
def model():
    return TinyGPT()


def raw_sha256(weight):
    return hashlib.sha256(weight.detach().numpy().tobytes()).hexdigest()


def test_the_default_model_has_exactly_5_838_080_parameters(model):
    """The count follows from the configuration: 2 x 260 x 256 and six layers and a norm."""
    layer = 2 * 256 * 256 + 2 * 256 * 64 + 3 * 256 * 1024 + 2 * 256
    assert model.parameter_count() == 2 * 260 * 256 + 6 * layer + 256 == 5_838_080


def test_seed_0_gives_the_published_weights(model):
    """Seed, order of drawing and torch's initialisation give the reference's weights bit for bit."""
    embed, head = model.embed.weight, model.head.weight
    assert embed[0, :3].tolist() == pytest.approx([-1.12584, -1.15236, -0.250579], abs=5e-6)
    assert embed.sum().item() == pytest.approx(-239.335, abs=5e-4)
    assert head.sum().item() == pytest.approx(-15.804249, abs=5e-5)
    assert raw_sha256(embed).startswith("e4d3a569ce87")
    assert raw_sha256(head).startswith("d0ea46b1abf1")


def test_learned_positions_leave_all_other_weights_as_they_are(model):
    """The table of positions is drawn last, so a test of positions changes nothing else."""
    learned = TinyGPT(TinyGPTConfig(positions="learned", context_tokens=32))
    others = dict(learned.named_parameters())
    assert others.pop("position.weight").shape == (32, 256)
    assert others.keys() == dict(model.named_parameters()).keys()
    for name, weight in model.named_parameters():
        assert torch.equal(weight, others[name]), name


def test_building_a_model_leaves_the_callers_random_state_alone():
    """Whoever draws numbers before and after building a model gets what they would have got without it."""
    torch.manual_seed(11)
    expected = torch.rand(3)
    torch.manual_seed(11)
    TinyGPT(TinyGPTConfig(layers=1, seed=3))
    assert torch.equal(torch.rand(3), expected)


def test_the_hash_is_of_the_weights(model):
    """Equal seeds give equal hashes, another seed another one."""
    assert TinyGPT().weights_sha256() == model.weights_sha256()
    assert TinyGPT(TinyGPTConfig(seed=1)).weights_sha256() != model.weights_sha256()


def test_rotary_positions_turn_the_two_halves_of_a_head_together():
    """Dimension i is turned with i + half, not with its neighbour, by position x theta^(-2i / head_dim)."""
    angles = rope_angles(TinyGPTConfig(width=4, heads=1, kv_heads=1))[3:4]
    assert angles.tolist() == [pytest.approx([3.0, 3.0 / 100])]
    first, second = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 7.0])
    turned = torch.complex(first, second) * torch.polar(torch.ones(2), angles[0])
    expected = torch.cat((turned.real, turned.imag))
    assert torch.allclose(rotated(torch.tensor([[1.0, 2.0, 5.0, 7.0]]), angles)[0], expected, atol=1e-6)


def test_a_token_sees_only_what_stands_before_it(model):
    """Changing a token changes no logits before it and some at it."""
    text = torch.tensor([list(b"static batching"), list(b"static bXtching")])
    with torch.inference_mode():
        one, other = model(text)
    assert torch.equal(one[:8], other[:8])
    assert not torch.equal(one[8], other[8])


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"layers": 0}, "layers"),
        ({"kv_heads": 0}, "kv-heads"),
        ({"width": 250}, "width 250"),
        ({"heads": 6, "width": 192, "kv_heads": 4}, "4 kv-heads"),
        ({"vocabulary": 256}, "vocabulary of 256"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_in_one_line(sizes, named):
    """A wrong size is named before anything is drawn."""
    with pytest.raises(ValueError, match=named) as refusal:
        TinyGPTConfig(**sizes)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("module", ["engines.tinygpt", "engines.torch_executor"])
def test_a_missing_torch_says_in_one_line_what_to_install(module):
    """Whoever asks for the executor without torch is told the extra's name."""
    script = f"import sys; sys.modules['torch'] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    last_line = done.stderr.strip().splitlines()[-1]
    assert last_line == 'ModuleNotFoundError: the tinygpt executor needs torch: pip install "tokenload[torch]"'
