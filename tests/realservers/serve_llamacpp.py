"""llama.cpp's own server out of the wheel xllamacpp, on loopback: run by the interpreter that has the wheel.

Prints `listening on http://127.0.0.1:PORT`, and ends when its standard input does.
"""

import sys

import xllamacpp

MODEL, SLOTS = sys.argv[1], int(sys.argv[2])

parameters = xllamacpp.CommonParams()
parameters.model.path = MODEL
parameters.model_alias = {"smollm2-135m"}
parameters.hostnames = ["127.0.0.1"]
parameters.port = 0
parameters.n_ctx = 1024 * SLOTS
parameters.n_parallel = SLOTS
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
parameters.n_threads_http = SLOTS + 8
parameters.cont_batching = parameters.warmup = True
parameters.endpoint_metrics = parameters.endpoint_slots = True
server = xllamacpp.Server(parameters)
print("listening on", server.listening_address, flush=True)
sys.stdin.read()
