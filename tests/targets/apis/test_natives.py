"""What is peculiar to the native APIs of Ollama, TGI and llama.cpp."""

import orjson
import pytest

from targets.api import BodyOptions, Delta, Usage
from targets.apis.llamacpp import LlamaCpp
from targets.apis.ollama_chat import OllamaChat
from targets.apis.ollama_generate import OllamaGenerate
from targets.apis.tgi import Tgi
from targets.target import PlannedRequest

REQUEST = PlannedRequest(1, "Hello", [1, 2], max_tokens=9, seed=3)


def test_bodies() -> None:
    """Each API's own names of limit, sampling and prompt."""
    options = BodyOptions("m")
    sampling = {"temperature": 0.0, "seed": 3}
    asked = {"model": "m", "stream": True, "options": {**sampling, "num_predict": 9}}
    assert OllamaGenerate().body(REQUEST, options) == {**asked, "prompt": "Hello"}
    assert OllamaChat().body(REQUEST, options) == {**asked, "messages": [{"role": "user", "content": "Hello"}]}
    assert Tgi().body(REQUEST, options) == {"inputs": "Hello", "parameters": {"max_new_tokens": 9, "seed": 3}}
    ours = {"model": "m", "prompt": "Hello", "stream": True, **sampling, "n_predict": 9, "ignore_eos": True}
    assert LlamaCpp().body(REQUEST, options) == ours


def test_tgi_samples_only_above_temperature_0() -> None:
    """Temperature 0 is refused by TGI, so greedy decoding sends none."""
    warm = PlannedRequest(1, "Hello", None, max_tokens=9, temperature=0.5)
    sampled = Tgi().body(warm, BodyOptions("m"))["parameters"]
    assert sampled == {"max_new_tokens": 9, "do_sample": True, "temperature": 0.5}


@pytest.mark.parametrize(
    ("api", "line", "expected"),
    [
        (OllamaGenerate(), {"response": "", "thinking": "hm", "done": False}, Delta("hm", reasoning=True)),
        (OllamaChat(), {"message": {"content": "", "thinking": "hm"}}, Delta("hm", reasoning=True)),
        (OllamaChat(), {"message": {"content": "a", "thinking": "hm"}}, Delta("hma")),
        (OllamaChat(), {"message": {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]}}, Delta("f{}")),
        (OllamaGenerate(), {"response": "", "done": True}, Delta(finish_reason="stop")),
        (OllamaGenerate(), {"response": "", "done": True, "done_reason": "stop"}, Delta(finish_reason="stop")),
        (OllamaGenerate(), {"response": "a", "done": False, "eval_count": 3}, Delta("a")),
        (OllamaGenerate(), {"done": True, "eval_count": 0}, Delta(finish_reason="stop", usage=Usage(0))),
        (Tgi(), {"token": {"id": 2, "text": "</s>", "special": True}, "generated_text": None}, Delta()),
        (Tgi(), {"token": {"id": 2, "text": "a", "special": False}}, Delta("a", tokens=1)),
        (Tgi(), {"token": {"text": "</s>", "special": True}, "generated_text": "ab",
                 "details": {"finish_reason": "eos_token", "generated_tokens": 3}},
         Delta(finish_reason="stop", usage=Usage(3))),
        (Tgi(), {"token": {"text": "b"}, "generated_text": "ab", "details": None},
         Delta("b", tokens=1, finish_reason="stop")),
        (LlamaCpp(), {"content": "a", "tokens": [4, 5], "stop": False}, Delta("a", tokens=2)),
        (LlamaCpp(), {"content": "a", "stop": False, "tokens_predicted": 2, "tokens_evaluated": 9}, Delta("a")),
        (LlamaCpp(), {"content": "", "stop": True, "stopped_limit": True}, Delta(finish_reason="length")),
        (LlamaCpp(), {"content": "", "stop": True, "stopped_limit": False}, Delta(finish_reason="stop")),
        (LlamaCpp(), {"content": "", "stop": True, "stop_type": "eos", "tokens_predicted": 2, "tokens_evaluated": 9,
                      "tokens_cached": 11, "timings": {"prompt_n": 4}},
         Delta(finish_reason="stop", usage=Usage(2, 9, 5))),
        (LlamaCpp(), {"stop": True, "stop_type": "word", "tokens_cached": 11}, Delta(finish_reason="stop")),
    ],
)  # fmt: skip
def test_what_an_event_bears(api: OllamaChat | OllamaGenerate | Tgi | LlamaCpp, line: object, expected: Delta) -> None:
    """Thinking is reasoning, special tokens are no text, counts come with the end, and ends have OpenAI's words."""
    assert api.event(orjson.dumps(line), "message") == expected
